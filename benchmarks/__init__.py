"""Measurements. `make bench` runs them all; each is a program of its own."""
