"""What a method found out, as a PyG explanation: its scores, how they are read, shown, kept and loaded."""
