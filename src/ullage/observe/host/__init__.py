"""What runs on this host: its processes, the units and containers that hold them, and what they wrote."""
