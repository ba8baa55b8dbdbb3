"""What training needs besides the model: data, tokenizers, errors."""
