"""A trigram model of three words, as a file of ARPA."""

TINY = r"""\data\
ngram 1=5
ngram 2=3
ngram 3=1

\1-grams:
-1.0	<s>	-0.3
-0.9	</s>
-0.8	a	-0.2
-0.7	b	-0.25
-1.5	c	-0.1

\2-grams:
-0.4	<s> a	-0.15
-0.35	a b	-0.05
-0.5	b </s>

\3-grams:
-0.2	<s> a b

\end\
"""
