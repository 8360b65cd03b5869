#!/bin/bash
# Serve a model with vLLM and evaluate one part of a benchmark against it, so that its prefix cache serves the histories.
#
# Needs: pip install vllm 'personamem[eval]'; a GPU that holds the model and a few histories.
# Not run with vLLM yet: the evaluation was run against another server with the same API.
#
#   MODEL=Qwen/Qwen3-8B examples/scale/vllm.sh                       # all questions
#   MODEL=Qwen/Qwen3-8B PORT=8000 examples/scale/vllm.sh 3/8         # one part, as a task of a job array
#   personamem merge results/parts --out results/whole               # once all parts are there
#
# Questions about one history go out one after another, and the histories grow: with 4 at a time, as below, four
# histories are in the cache at once. The report shows how much of the prompts came from it
# (`cached tokens`; vLLM tells with --enable-prompt-tokens-details). The parts of one run need one address, so every
# node has its own server on the same PORT.
set -euo pipefail

MODEL=${MODEL:?name a model}
PORT=${PORT:-8000}
SHARD=${1:-1/1}
URL=http://127.0.0.1:$PORT

vllm serve "$MODEL" --port "$PORT" --max-model-len "${WINDOW:-65536}" --enable-prefix-caching \
    --enable-prompt-tokens-details >"vllm-$PORT.log" 2>&1 &
server=$!
trap 'kill "$server"' EXIT
until curl --silent --fail "$URL/health" >/dev/null; do
    kill -0 "$server" # ends the script where the server has ended
    sleep 5
done

OPENAI_API_KEY=${OPENAI_API_KEY:-none} personamem eval --tasks "${TASKS:-personamem_32k_generate}" \
    --model personamem-chat --model_args "model=$MODEL,base_url=$URL/v1/chat/completions,num_concurrent=4" \
    --output_path "${RESULTS:-results}/parts" --shard "$SHARD"
