"""What a given policy is worth, learned from data: no algorithm that trains one, and so not in the catalogue."""
