"""Carriers of packets between a server and its units, and accounts of them."""

from ..message.packet import Failure, Packet, PacketError
from .envelope import KeyPair, read_key, read_key_pair, revoke_key, write_key, write_key_pair
from .exchange import ClientError, InProcessTransport, LostUnits, LostUnitWarning, Transport, Worker
from .files import FileLoopback, FileSite, FileTransport
from .gate import ExactStatesWarning, Gate, PolicyError, SitePolicy, WorstCase
from .ledger import ByteLimitError, Ledger, LedgerError, SiteLedger, StreamLedger, verify_ledger

__all__ = [
    "ByteLimitError", "ClientError", "ExactStatesWarning", "Failure", "FileLoopback", "FileSite", "FileTransport",
    "Gate", "InProcessTransport", "KeyPair", "Ledger", "LedgerError", "LostUnitWarning", "LostUnits", "Packet",
    "PacketError", "PolicyError", "SiteLedger", "SitePolicy", "StreamLedger", "Transport", "Worker", "WorstCase",
    "read_key", "read_key_pair", "revoke_key", "verify_ledger", "write_key", "write_key_pair",
]  # fmt: skip
