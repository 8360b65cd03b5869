"""The Hugging Face Hub: datasets to download, repositories as they are now, and what goes wrong with them."""
