from letters import letters as letters
