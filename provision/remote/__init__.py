"""The way to a host: the agent, SSH and local transport, one protocol."""
