"""Values as bytes: frames, msgpack, typed messages, addresses."""
