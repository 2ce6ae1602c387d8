"""Words in the names of columns, and the fields that they point to: English, German, some French and Spanish.

They stand as `folded` writes them, `stellgroesse` for Stellgröße.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from itertools import pairwise

_UPPER, _LOWER = "A-ZÀ-ÖØ-Þ", "a-zß-öø-ÿ"
_UMLAUTS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue"})


_WORD = re.compile(rf"[{_UPPER}]?[{_LOWER}]+|[{_UPPER}]+(?![{_LOWER}])|[0-9]+")
_VALVE = re.compile(r"(?<![A-Za-z])(?:[FLTX]V|[FLPT]CV)[-_ ]?\d{2}")
_SP_FIRST = re.compile(r"SP\d*[-_. ]")  # not `SpO2`, nor `sp. gravity`


def folded(text: str) -> str:
    """In small letters without marks: `Stellgröße` and `Stellgroesse` are one word."""
    plain = unicodedata.normalize("NFC", text).casefold().translate(_UMLAUTS)
    return "".join(mark for mark in unicodedata.normalize("NFD", plain) if not unicodedata.combining(mark))


NEXT = {
    "next", "new", "nxt", "succ", "successor", "prime", "following", "tp1", "naechste", "naechster", "naechstes",
    "folgend", "folgender",
}  # fmt: skip
# Words of a field's columns. A single letter counts only where a name begins with it.
PLAIN = {
    "obs": {
        "obs", "ob", "observation", "observations", "state", "states", "s", "st", "feature", "features", "feat",
        "zustand", "zustaende", "beobachtung", "beobachtungen", "etat", "estado", "observacion",
    },
    "actions": {
        "a", "act", "action", "actions", "u", "ctrl", "control", "controls", "cmd", "command", "torque",
        "aktion", "aktionen", "stellgroesse", "stellgroessen", "stellwert", "accion", "acciones", "commande",
    },
}  # fmt: skip
LIKELY = {
    "obs": {
        "sensor", "sensors", "pos", "position", "vel", "velocity", "speed", "angle", "theta", "omega", "qpos", "qvel",
        "joint", "joints", "x", "y", "z", "vx", "vy", "vz", "temp", "temperature", "pressure", "level", "height",
        "dist", "distance", "altitude", "airspeed", "heading",
        "yaw", "pitch", "roll", "acc", "accel", "gyro", "imu", "measurement", "cos",
        "sin", "proprio", "error", "flow", "rpm", "current", "humidity", "weight", "mass", "glucose", "bp", "hr",
        "spo2", "soc", "soh", "hp", "health", "battery", "fuel", "density", "concentration",
        "messwert", "istwert", "temperatur", "druck", "fuellstand", "winkel", "geschwindigkeit", "drehzahl", "feuchte",
        "price", "tariff", "preis", "tarif", "prix", "precio", "prezzo",
        "durchfluss", "abstand", "hoehe", "gewicht", "pression", "vitesse", "niveau", "temperatura", "presion",
        "velocidad", "posicion", "nivel",
    },
    "actions": {
        "force", "throttle", "steer", "steering", "brake", "thrust", "dose", "setpoint", "motor", "valve", "voltage",
        "thruster", "torques", "accelerator", "aileron", "elevator", "rudder", "pedal", "actuator",
        "insulin", "dosage", "heater", "fan", "setpoints", "valves", "damper", "dampers", "heaters", "cooler",
        "heating", "cooling", "chiller", "burner", "pump", "pumps", "fans", "blower", "vent", "vents", "compressor",
        "sollwert", "ventil", "ventilstellung", "stellung", "drossel", "heizleistung", "brenner", "pumpe", "dosis",
        "sollwerte", "vorgabe", "ventile", "klappe", "klappen", "klappenstellung", "schieber", "heizung", "heizen",
        "kuehlung", "kuehlen", "luefter", "lueftung", "ventilator", "geblaese", "pumpen", "verdichter", "kompressor",
        "stellantrieb", "dosierung", "befeuchtung", "bewaesserung",
        "consigne", "vanne", "vannes", "clapet", "volet", "chauffage", "ventilateur", "pompe", "consigna", "valvula",
        "compuerta", "calefaccion", "calentador", "bomba", "valvola", "pompa", "riscaldamento",
        "lever", "levers", "knob", "knobs", "pedals", "hebel", "hebelstellung", "manette", "palanca",
        "opening", "oeffnung", "ouverture", "ouvrant", "ouvrants", "apertura", "aeration", "arrosage", "irrigation",
        "riego", "irrigazione", "humidificateur", "climatisation", "refroidissement",
    },
}  # fmt: skip
# At the end of what may be a control, or the reading of one; and what is switched.
_SET = {"pct", "percent", "prozent", "set", "sp", "setp", "soll", "power", "duty", "cmd", "leistung", "stufe"}
# The last or the first word of what is told to a controller: a set point, whatever it is of, as `Agitation rpm SP`.
_SET_POINT = {"sp", "setp", "soll", "cmd", "command", "commanded"}
# Beside `set`, which then is one of many.
_NUMBERED = {"id", "ids", "no", "nr", "number", "name", "type", "index", "size"}
_SWITCHED = {
    "defrost", "defrosting", "abtauung", "abtauen", "compr", "drive", "antrieb", "setting", "settings", "einstellung",
}  # fmt: skip
REWARD = {"r", "rew", "reward", "rewards", "belohnung", "belohnungen", "recompense", "recompensa"}
LIKE_REWARD = {
    "score", "scores", "gain", "utility", "payoff", "payout", "profit", "points", "revenue", "benefit", "bonus",
    "punkte", "gewinn", "ertrag", "nutzen", "ganancia",
}  # fmt: skip
COST = {
    "cost", "costs", "penalty", "loss", "losses", "regret", "kosten", "verlust", "cout", "couts", "depense", "depenses",
    "coste", "costes", "costo", "costi", "gasto", "gastos", "custo", "custos", "kostnad",
}  # fmt: skip
# At the end of a longer word as well, as German puts them together: `Vorlaufsollwert`.
HEADS = {
    "sollwert", "stellgroesse", "stellwert", "istwert", "messwert", "temperatur", "temp", "druck", "feuchte",
    "drehzahl", "fuellstand", "durchfluss", "geschwindigkeit", "belohnung",
    "ventil", "klappe", "heizung", "kuehlung", "luefter", "lueftung", "ventilator", "pumpe", "schieber", "hebel",
}  # fmt: skip
# The last word of what is measured at a control: `heater_temp`.
_MEASURED = {
    "temp", "temperature", "temperatur", "pressure", "druck", "humidity", "feuchte", "sensor", "messwert", "istwert",
    "feedback",
}  # fmt: skip
# What a column of messages is called: it may stay the same for a while, but tells no episodes apart. At the beginning
# or the end of a longer word as well, as in `Fehlercode` and `Sammelstoerung`, those of five letters and more.
_MESSAGES = {
    "message", "messages", "msg", "alarm", "alarms", "status", "error", "errors", "err", "fault", "faults", "event",
    "events", "note", "notes", "comment", "comments", "remark", "remarks", "warning", "warnings", "info", "mode",
    "meldung", "meldungen", "stoerung", "fehler", "ereignis", "hinweis", "bemerkung", "kommentar", "warnung", "notiz",
    "modus", "betriebsart", "alarme", "statut", "erreur", "defaut", "panne", "evenement", "remarque", "commentaire",
    "avertissement", "mensaje", "alarma", "fallo", "evento", "nota", "comentario", "aviso", "messaggio", "allarme",
    "stato", "errore", "guasto", "commento", "mensagem", "falha", "melding", "storing", "opmerking",
}  # fmt: skip
_LONG = 5  # letters
# Other words for what should be small, at the end of a longer one as well: `Energiekosten`. An error may be seen, too.
LIKE_COST = ("cost", "costs", "kosten", "penalty", "penalties", "strafe", "verbrauch", "consumption", "fehler", "error")
_SURELY_COSTS = ("cost", "costs", "kosten", "penalty", "penalties", "strafe")
# In the name of an amount, which may be a cost or a yield.
MONEY = {"eur", "euro", "euros", "usd", "dollar", "dollars", "chf", "gbp", "aufwand", "ausgaben", "expense", "expenses"}
MONEY_SIGNS = "€$£"
# What a unit of something is worth is seen, not paid, unless it is said to be paid or a whole.
_OF_A_UNIT = {"price", "prices", "tariff", "tariffs", "preis", "preise", "tarif", "tarife", "prix", "precio", "prezzo"}
_PAID = {"paid", "bezahlt", "paye", "pagado", "pagato"}
# In the name of an amount of money that is surely earned, and of one that is surely paid.
EARNED = {
    "sales",
    "sold",
    "income",
    "earnings",
    "turnover",
    "umsatz",
    "erloes",
    "erloese",
    "einnahmen",
    "ventes",
    "ventas",
}
SPENT = {
    "wage", "wages", "salary", "salaries", "expense", "expenses", "fee", "fees", "rent", "fuel", "fine", "fines",
    "aufwand", "ausgaben", "lohn", "loehne", "gehaelter", "miete", "gebuehr", "gebuehren", "salaires", "loyer",
}  # fmt: skip
# How much too late something was: a cost where whole episodes are scored by it, else perhaps a measurement.
LATENESS = {
    "late", "lateness", "delay", "delays", "delayed", "overdue", "tardiness", "verspaetung", "verspaetungen", "verzug",
    "retard", "retards", "retraso", "retrasos", "ritardo",
}  # fmt: skip
_ENERGY = {"wh", "kwh", "mwh", "gwh"}  # `kWh` is k, wh
WHOLE_REWARD = {"total", "sum", "all", "overall", "gesamt", "summe"}
BESIDE_R = {"t", *WHOLE_REWARD}
FLAGS = {
    "truncations": {
        "truncated", "truncation", "truncations", "trunc", "cut", "timeout", "timeouts", "timelimit", "zeitlimit",
        "zeitueberschreitung", "abgeschnitten", "tronque", "truncado",
    },
    "terminations": {
        "terminal", "terminals", "terminated", "termination", "terminations", "crash", "crashed", "collision",
        "collided", "fell", "fallen", "failed", "failure", "dead", "died", "death",
        "abbruch", "abgebrochen", "absturz", "abgestuerzt", "gestuerzt", "kollision", "ausfall", "stoerung", "echec",
        "fallo", "choque",
    },
    "dones": {
        "d", "done", "dones", "end", "ended", "finished", "finish", "over", "last", "final", "ende", "beendet",
        "schluss", "fertig", "letzte", "letzter", "fin", "fini", "termine", "terminado",
    },
}  # fmt: skip

# Flags that may be set in any row, and mark ends only where they are set in last rows alone.
TRIPS = {
    "trip", "tripped", "trips", "interlock", "alarm", "alarms", "fault", "faults", "faulted", "estop", "emergency",
    "notaus", "fehler", "alarme", "alarma",
}  # fmt: skip


def words_in(name: str) -> list[str]:
    """`robot/jointPos_12` is robot, joint, pos, 12."""
    return list(_folded_words(name))


@lru_cache(2**17)  # names: each is asked for dozens of times
def _folded_words(name: str) -> tuple[str, ...]:
    return tuple(folded(word) for word in _WORD.findall(name))


def first_of(name: str, known: set[str]) -> str | None:
    heads = tuple(known & HEADS)
    for place, word in enumerate(words_in(name)):
        if (word in known and (len(word) > 1 or place == 0)) or (heads and word.endswith(heads)):
            return word
    return None


def is_cost(name: str, *, sure: bool = False) -> bool:
    """Whether a word of the name is one of costs, or ends like one; sure: and cannot be a measurement."""
    if not sure and first_of(name, COST) is not None:
        return True
    endings = tuple(word for word in LIKE_COST if not (sure and word in ("fehler", "error")))
    return any(word.endswith(endings) for word in words_in(name))


def is_surely_cost(name: str) -> bool:
    """Whether a word of the name can mean nothing else, as `cost` and `Stromkosten`; a loss may be one of heat."""
    sure = COST - {"loss", "losses", "verlust", "regret"}
    return any(word in sure or word.endswith(_SURELY_COSTS) for word in words_in(name))


def is_money(name: str) -> bool:
    """`Aufwand [EUR]`, `energy_$`, and not `price_EUR`."""
    words = set(words_in(name))
    if words & _OF_A_UNIT and not words & (_PAID | WHOLE_REWARD):
        return False
    return first_of(name, MONEY) is not None or any(sign in name for sign in MONEY_SIGNS)


def may_cost(name: str) -> bool:
    """Whether lower may be better, by the name: of a cost, of money, energy or a delay, unless it says that it is
    gained."""
    gained = is_reward(name) or first_of(name, LIKE_REWARD) is not None
    return is_cost(name) or ((is_money(name) or is_energy(name) or is_lateness(name)) and not gained)


def is_lateness(name: str) -> bool:
    """`Late s`, `Verspätung [min]`."""
    return first_of(name, LATENESS) is not None


def is_energy(name: str) -> bool:
    """By its unit, `Energy kWh`: what is paid for, or else sold."""
    return not _ENERGY.isdisjoint(words_in(name))


def is_message(name: str) -> bool:
    """`Meldung`, `alarm_text`, `Fehlercode`; an `event_id` tells events apart."""
    words = words_in(name)
    longer = tuple(word for word in _MESSAGES if len(word) >= _LONG)
    if {"id", "ids"} & set(words):
        return False
    return any(word in _MESSAGES or word.startswith(longer) or word.endswith(longer) for word in words)


def is_control(name: str) -> bool:
    """Whether a name is one of what steers: `Heizung`, `valve_1`, but not `heater_temp`."""
    if is_valve(name) or _is_set_point(name):
        return True
    letters = [word for word in words_in(name) if word.isalpha()]
    return first_of(name, LIKELY["actions"]) is not None and letters[-1] not in _MEASURED


def _is_set_point(name: str) -> bool:
    """`Agitation rpm SP`, `Soll-Drehzahl`, `temp set point`; whoever records one sets it."""
    letters = [word for word in words_in(name) if word.isalpha()]
    if not letters:
        return False
    beside = any(pair == ("set", "point") for pair in pairwise(letters))
    first = letters[0] in _SET_POINT - {"sp"} or _SP_FIRST.match(name) is not None
    return beside or (len(letters) > 1 and (first or letters[-1] in _SET_POINT))


def may_be_control(name: str) -> bool:
    """Whether a name may be one of what steers: `compr_pct`, `drive_speed_set`, but not `level_pct`; `set_power_kW`,
    and so `set_reps` of exercises."""
    letters = [word for word in words_in(name) if word.isalpha()]
    if not letters or is_control(name) or first_of(name, PLAIN["actions"] - {"a", "u"}):
        return bool(letters)
    is_set = letters[-1] in _SET and (letters[-1] in ("set", "sp", "cmd") or first_of(name, LIKELY["obs"]) is None)
    is_set = is_set or (letters[0] == "set" and _NUMBERED.isdisjoint(letters))
    return (len(letters) > 1 and is_set) or bool(_SWITCHED & set(letters))


def is_valve(name: str) -> bool:
    """By the letters of a tag of ISA 5.1: `FV-201` is a control valve of a flow. `PV` is a process value as well."""
    return _VALVE.search(name) is not None


def is_reward(name: str) -> bool:
    words = words_in(name)
    if words[:1] == ["r"]:
        return set(words[1:]) <= BESIDE_R
    return first_of(name, REWARD - {"r"}) is not None
