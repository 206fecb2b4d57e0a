python -m sglang_router.launch_router --pd-disaggregation \
  --prefill http://127.0.0.1:30000 8998 --decode http://127.0.0.1:30001 \
  --host 127.0.0.1 --port 8000 --policy round_robin
