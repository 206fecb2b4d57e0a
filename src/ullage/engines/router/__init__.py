"""sglang-router (sgl-model-gateway, smg): its flags, workers, metrics and log, read into a Server of role router."""
