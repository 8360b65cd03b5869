#!/bin/bash
# Generate a benchmark and evaluate a model on it with Slurm job arrays.
#
# Needs: Slurm; a file system that all nodes see; pip install 'personamem[eval,hf]' in the environment that jobs start
# with; for `eval` a GPU a task that holds the model and one history.
# Not run on a cluster yet: a test checks that its commands exist, and only `eval` and `merge` were run, on one machine.
#
#   job=$(sbatch --parsable --array=1-16 examples/scale/slurm.sh generate)
#   job=$(sbatch --parsable --dependency=afterok:$job examples/scale/slurm.sh build)
#   job=$(sbatch --parsable --dependency=afterok:$job --array=1-8 --gres=gpu:1 examples/scale/slurm.sh eval)
#   sbatch --dependency=afterok:$job examples/scale/slurm.sh merge
#
# A task that was stopped goes on where it was: submit it again, with the number of parts: `PARTS=8 sbatch --array=3 …`.
#SBATCH --cpus-per-task=4
#SBATCH --mem=64G
#SBATCH --time=08:00:00
#SBATCH --requeue
set -euo pipefail

CONFIG=${CONFIG:-examples/full.yaml}
RUN=${RUN:-runs/full}
DATA=${DATA:-personamem}
MODEL=${MODEL:-meta-llama/Llama-3.1-8B-Instruct}
TASKS=${TASKS:-personamem_32k,personamem_32k_nocontext}
RESULTS=${RESULTS:-results}
SHARD=${SLURM_ARRAY_TASK_ID:-1}/${PARTS:-${SLURM_ARRAY_TASK_COUNT:-1}}

case ${1:?generate, build, eval or merge} in
generate) personamem generate "$CONFIG" --out "$RUN" --shard "$SHARD" ;;
build)
    personamem assemble "$RUN" --workers "${SLURM_CPUS_PER_TASK:-1}"
    personamem build "$RUN" --out "$DATA"
    ;;
eval)
    personamem eval --tasks "$TASKS" --model hf-prefix --model_args "pretrained=$MODEL,dtype=bfloat16" \
        --apply_chat_template --metadata "data=$DATA" --output_path "$RESULTS/parts" --shard "$SHARD"
    ;;
merge)
    personamem merge "$RESULTS/parts" --out "$RESULTS/whole"
    personamem report "$RESULTS/whole"
    ;;
*)
    echo "no step $1: generate, build, eval or merge" >&2
    exit 2
    ;;
esac
