"""Write durable workflows in Python."""
