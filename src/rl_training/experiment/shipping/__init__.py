"""Policies for elsewhere: one file with every transform inside, a card beside it, and a page for the hub."""
