"""Firm, tentative and newest words at every cut of real speech, by the real models."""
import time
from pathlib import Path
import jiwer
import numpy as np
import pytest
from recordings import recordings_of

from conch.component import Row
from conch.decoding.streaming_decoder import CtcStreamingDecoder, CtcStreamingDecoderConfig
from conch.models.ctc.streaming_encoder import CtcStreamingEncoder, CtcStreamingEncoderConfig
from conch.models.whisper.decoder import WhisperDecoder, WhisperDecoderConfig
from conch.models.whisper.encoder import WhisperEncoder, WhisperEncoderConfig
from conch.orchestrator import roles
from conch.orchestrator.live_text import LiveText, is_credible
from conch.component.waveform import SAMPLE_RATE
from conch.wire.result import Word, text_of_words
from plain_components import HostTensor

import sys
t0=time.time()
recs=recordings_of(Path('tests/data'))
for r in recs: print(r.path.name, len(r.waveform())/16000)
enc,dec=WhisperEncoder(WhisperEncoderConfig(nice=0)),WhisperDecoder(WhisperDecoderConfig(nice=0))
ce,cd=CtcStreamingEncoder(CtcStreamingEncoderConfig()),CtcStreamingDecoder(CtcStreamingDecoderConfig())
print('load',time.time()-t0)
STEP=10240
def words(o,start=0.0): return roles.words({k:HostTensor(np.asarray(v)) for k,v in o.items()},start)
def whisper(w):
    (e,)=enc([Row({"waveform":w},{"min_window_ms":7500,"window_margin_ms":3000})])
    (d,)=dec([Row(e,{"beam_size":1,"nbest":1,"align":True,"language":"en"})])
    return words(d)
def ctc(w):
    out=[]
    n=-(-len(w)//STEP)
    for i in range(n):
        (e,)=ce([Row({"waveform":w[i*STEP:(i+1)*STEP]},{}, "s", i==0, i==n-1)])
        (d,)=cd([Row({"log_probs":e["log_probs"],"log_probs_lens":e["log_probs_lens"]},{"decoder":"wfst"} if i==0 else {}, "s", i==0, i==n-1)])
        best=d["hypotheses"][0].decode(); k=len(best.split())
        out.append(words(d)[:k])
    return out
for r in recs:
    t=time.time(); w=r.waveform()
    c=ctc(w); W=[whisper(w[:(i+1)*STEP]) for i in range(len(c))]
    print(r.path.name, r.text, time.time()-t)
    for i,(a,b) in enumerate(zip(W,c)): print(i,(i+1)*.64,'W:',text_of_words(a),'| C:',text_of_words(b))
