# Made from _async/__init__.py by scripts/gen_python.py; change that file.
