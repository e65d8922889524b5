#!/bin/sh
# Transcribe an audio file with nothing but curl, by Triton's binary tensor extension of HTTP.
#
#     conch serve &
#     examples/curl.sh speech.wav
#     examples/curl.sh speech.flac --url http://127.0.0.1:8000
set -eu
file=${1:?usage: curl.sh FILE [--url URL]}
url=http://127.0.0.1:8000
[ "${2:-}" = --url ] && url=$3

# A BYTES tensor is, for each element, its length as 4 bytes (lowest first) and then the bytes.
size=$(($(wc -c <"$file")))
octal() { printf '\\%03o' $(($1 & 255)) $(($1 >> 8 & 255)) $(($1 >> 16 & 255)) $(($1 >> 24 & 255)); }

# Options of the request go into "parameters"; docs/guide/options.md lists them.
header=$(
    cat <<JSON
{
  "parameters": {"vad": true, "rescore": false},
  "inputs": [{"name": "AUDIO", "datatype": "BYTES", "shape": [1, 1],
              "parameters": {"binary_data_size": $((size + 4))}}],
  "outputs": [{"name": "TRANSCRIPTS"}]
}
JSON
)

# The JSON, whose length a header tells, and right behind it the tensor.
answer=$(
    { printf %s "$header"; printf "$(octal "$size")"; cat "$file"; } |
        curl --silent --show-error --fail-with-body "${url%/}/v2/models/speech/infer" \
            --header "Inference-Header-Content-Length: $(printf %s "$header" | wc -c)" \
            --header "Content-Type: application/octet-stream" \
            --data-binary @-
) || { printf '%s\n' "$answer" >&2; exit 1; }

printf '%s\n' "$answer" | sed 's/.*"data":\["\(.*\)"\].*/\1/'
