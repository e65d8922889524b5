"""`python -m lab orchestration`: one path, run by Conch and by alternatives."""
