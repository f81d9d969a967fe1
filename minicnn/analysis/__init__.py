"""What the paper measures on trained networks, and statistics.py: is one network better than another?"""
