"""Turns a host model into findings: engine, rules with their pages, and what messages mean."""
