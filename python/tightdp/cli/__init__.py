"""The command line: ``tightdp COMMAND ...``."""

from .main import COMMANDS as COMMANDS
from .main import build_command_parser as build_command_parser
from .main import main as main
