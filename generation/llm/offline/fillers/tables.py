"""Small tables of facts: units, elements, planets, countries, and words without any meaning for a profile."""

from __future__ import annotations

from fractions import Fraction
from typing import Final, NamedTuple


class Unit(NamedTuple):
    """A conversion: how many of one unit make one of another, exactly."""

    source: str
    target: str
    factor: Fraction
    reason: str


UNITS: Final = (
    Unit("miles", "kilometres", Fraction(1609344, 10**6), "one mile is defined as exactly 1.609344 kilometres"),
    Unit("kilometres", "miles", Fraction(10**6, 1609344), "one mile is exactly 1.609344 kilometres, so we divide"),
    Unit("pounds", "kilograms", Fraction(45359237, 10**8), "one pound is defined as exactly 0.45359237 kilograms"),
    Unit("kilograms", "pounds", Fraction(10**8, 45359237), "one pound is exactly 0.45359237 kilograms, so we divide"),
    Unit("feet", "metres", Fraction(3048, 10**4), "one foot is defined as exactly 0.3048 metres"),
    Unit("metres", "feet", Fraction(10**4, 3048), "one foot is exactly 0.3048 metres, so we divide"),
    Unit("inches", "centimetres", Fraction(254, 100), "one inch is defined as exactly 2.54 centimetres"),
    Unit("centimetres", "inches", Fraction(100, 254), "one inch is exactly 2.54 centimetres, so we divide"),
    Unit("yards", "metres", Fraction(9144, 10**4), "one yard is defined as exactly 0.9144 metres"),
    Unit("US gallons", "litres", Fraction(3785411784, 10**9), "one US gallon is exactly 3.785411784 litres"),
    Unit(
        "litres", "US gallons", Fraction(10**9, 3785411784), "one US gallon is exactly 3.785411784 litres, so we divide"
    ),
    Unit("imperial gallons", "litres", Fraction(454609, 10**5), "one imperial gallon is exactly 4.54609 litres"),
    Unit("acres", "hectares", Fraction(40468564224, 10**11), "one acre is exactly 0.40468564224 hectares"),
    Unit(
        "hectares", "acres", Fraction(10**11, 40468564224), "one acre is exactly 0.40468564224 hectares, so we divide"
    ),
    Unit("avoirdupois ounces", "grams", Fraction(28349523125, 10**9), "one such ounce is exactly 28.349523125 grams"),
    Unit("knots", "kilometres per hour", Fraction(1852, 1000), "one knot is exactly 1.852 kilometres per hour"),
    Unit("miles per hour", "kilometres per hour", Fraction(1609344, 10**6), "one mile is exactly 1.609344 kilometres"),
    Unit("metres per second", "kilometres per hour", Fraction(36, 10), "an hour has 3,600 seconds"),
    Unit("nautical miles", "kilometres", Fraction(1852, 1000), "one nautical mile is exactly 1.852 kilometres"),
    Unit("kilowatt hours", "megajoules", Fraction(36, 10), "one kilowatt hour is exactly 3.6 megajoules"),
    Unit(
        "standard atmospheres", "kilopascals", Fraction(101325, 1000), "one atmosphere is exactly 101.325 kilopascals"
    ),
    Unit(
        "international calories", "joules", Fraction(41868, 10**4), "one international calorie is exactly 4.1868 joules"
    ),
)

ELEMENTS: Final = tuple(
    (entry.split(":")[0], entry.split(":")[1])
    for entry in [
        "H:hydrogen",
        "He:helium",
        "Li:lithium",
        "Be:beryllium",
        "B:boron",
        "C:carbon",
        "N:nitrogen",
        "O:oxygen",
        "F:fluorine",
        "Ne:neon",
        "Na:sodium",
        "Mg:magnesium",
        "Al:aluminium",
        "Si:silicon",
        "P:phosphorus",
        "S:sulfur",
        "Cl:chlorine",
        "Ar:argon",
        "K:potassium",
        "Ca:calcium",
        "Sc:scandium",
        "Ti:titanium",
        "V:vanadium",
        "Cr:chromium",
        "Mn:manganese",
        "Fe:iron",
        "Co:cobalt",
        "Ni:nickel",
        "Cu:copper",
        "Zn:zinc",
        "Ga:gallium",
        "Ge:germanium",
        "As:arsenic",
        "Se:selenium",
        "Br:bromine",
        "Kr:krypton",
        "Rb:rubidium",
        "Sr:strontium",
        "Y:yttrium",
        "Zr:zirconium",
        "Nb:niobium",
        "Mo:molybdenum",
        "Tc:technetium",
        "Ru:ruthenium",
        "Rh:rhodium",
        "Pd:palladium",
        "Ag:silver",
        "Cd:cadmium",
        "In:indium",
        "Sn:tin",
        "Sb:antimony",
        "Te:tellurium",
        "I:iodine",
        "Xe:xenon",
        "Cs:caesium",
        "Ba:barium",
        "La:lanthanum",
        "Ce:cerium",
        "Pr:praseodymium",
        "Nd:neodymium",
        "Pm:promethium",
        "Sm:samarium",
        "Eu:europium",
        "Gd:gadolinium",
        "Tb:terbium",
        "Dy:dysprosium",
        "Ho:holmium",
        "Er:erbium",
        "Tm:thulium",
        "Yb:ytterbium",
        "Lu:lutetium",
        "Hf:hafnium",
        "Ta:tantalum",
        "W:tungsten",
        "Re:rhenium",
        "Os:osmium",
        "Ir:iridium",
        "Pt:platinum",
        "Au:gold",
        "Hg:mercury",
        "Tl:thallium",
        "Pb:lead",
        "Bi:bismuth",
        "Po:polonium",
        "At:astatine",
        "Rn:radon",
        "Fr:francium",
        "Ra:radium",
        "Ac:actinium",
        "Th:thorium",
        "Pa:protactinium",
        "U:uranium",
        "Np:neptunium",
        "Pu:plutonium",
        "Am:americium",
        "Cm:curium",
        "Bk:berkelium",
        "Cf:californium",
        "Es:einsteinium",
        "Fm:fermium",
        "Md:mendelevium",
        "No:nobelium",
        "Lr:lawrencium",
        "Rf:rutherfordium",
        "Db:dubnium",
        "Sg:seaborgium",
        "Bh:bohrium",
        "Hs:hassium",
        "Mt:meitnerium",
        "Ds:darmstadtium",
        "Rg:roentgenium",
        "Cn:copernicium",
        "Nh:nihonium",
        "Fl:flerovium",
        "Mc:moscovium",
        "Lv:livermorium",
        "Ts:tennessine",
        "Og:oganesson",
    ]
)
"""Symbol and name of every element; the atomic number is the place in the tuple plus one."""

NOBLE_GASES: Final = (2, 10, 18, 36, 54, 86, 118)


class Place(NamedTuple):
    """Where an element stands in the periodic table; the f-block has no group number."""

    period: int
    group: int | None


def place_of(number: int) -> Place:
    """Return the period and group of an element.

    Args:
        number: Its atomic number, 1 to 118.
    """
    period = next(at for at, last in enumerate(NOBLE_GASES, 1) if number <= last)
    before = NOBLE_GASES[period - 2] if period > 1 else 0
    step, length = number - before, NOBLE_GASES[period - 1] - before
    if step <= 2 and number != 2:
        return Place(period, step)
    if length == 32 and step <= 17:
        return Place(period, None)
    return Place(period, 18 - (length - step))


class Planet(NamedTuple):
    """A planet with rounded figures."""

    name: str
    order: str
    gravity: float
    year: str
    width: str
    light: str


PLANETS: Final = (
    Planet("Mercury", "first", 3.7, "88 Earth days", "4,880", "3.2"),
    Planet("Venus", "second", 8.87, "225 Earth days", "12,100", "6"),
    Planet("Mars", "fourth", 3.71, "687 Earth days", "6,790", "12.7"),
    Planet("Jupiter", "fifth", 24.8, "11.9 Earth years", "143,000", "43"),
    Planet("Saturn", "sixth", 10.4, "29.5 Earth years", "120,500", "80"),
    Planet("Uranus", "seventh", 8.7, "84 Earth years", "51,100", "160"),
    Planet("Neptune", "eighth", 11.2, "165 Earth years", "49,500", "250"),
)


class Country(NamedTuple):
    """A country on one continent, with one capital."""

    name: str
    capital: str
    continent: str
    landlocked: bool


_COUNTRIES: Final = {
    "Europe": (
        "Albania:Tirana Andorra:Andorra_la_Vella* Austria:Vienna* Belarus:Minsk* Belgium:Brussels "
        "Bosnia_and_Herzegovina:Sarajevo Bulgaria:Sofia Croatia:Zagreb Czechia:Prague* Denmark:Copenhagen "
        "Estonia:Tallinn Finland:Helsinki France:Paris Germany:Berlin Greece:Athens Hungary:Budapest* "
        "Iceland:Reykjavik Ireland:Dublin Italy:Rome Latvia:Riga Liechtenstein:Vaduz* Lithuania:Vilnius "
        "Malta:Valletta Moldova:Chisinau* North_Macedonia:Skopje* Norway:Oslo Poland:Warsaw Portugal:Lisbon "
        "Romania:Bucharest Slovakia:Bratislava* Slovenia:Ljubljana Spain:Madrid Sweden:Stockholm Ukraine:Kyiv"
    ),
    "Asia": (
        "Afghanistan:Kabul* Bahrain:Manama Bangladesh:Dhaka Bhutan:Thimphu* Brunei:Bandar_Seri_Begawan "
        "Cambodia:Phnom_Penh China:Beijing India:New_Delhi Iran:Tehran Iraq:Baghdad Japan:Tokyo Jordan:Amman "
        "Kuwait:Kuwait_City Kyrgyzstan:Bishkek* Laos:Vientiane* Lebanon:Beirut Mongolia:Ulaanbaatar* "
        "Nepal:Kathmandu* North_Korea:Pyongyang Oman:Muscat Pakistan:Islamabad Qatar:Doha Saudi_Arabia:Riyadh "
        "South_Korea:Seoul Syria:Damascus Tajikistan:Dushanbe* Thailand:Bangkok Uzbekistan:Tashkent* Vietnam:Hanoi"
    ),
    "Africa": (
        "Algeria:Algiers Angola:Luanda Botswana:Gaborone* Burkina_Faso:Ouagadougou* Cameroon:Yaoundé "
        "Cape_Verde:Praia Chad:N'Djamena* Eritrea:Asmara Ethiopia:Addis_Ababa* Gabon:Libreville Ghana:Accra "
        "Guinea:Conakry Guinea-Bissau:Bissau Kenya:Nairobi Lesotho:Maseru* Liberia:Monrovia Libya:Tripoli "
        "Madagascar:Antananarivo Malawi:Lilongwe* Mali:Bamako* Mauritania:Nouakchott Mauritius:Port_Louis "
        "Morocco:Rabat Mozambique:Maputo Namibia:Windhoek Niger:Niamey* Nigeria:Abuja Rwanda:Kigali* "
        "Senegal:Dakar Sierra_Leone:Freetown Somalia:Mogadishu Togo:Lomé Tunisia:Tunis Uganda:Kampala* "
        "Zambia:Lusaka* Zimbabwe:Harare*"
    ),
    "North America": (
        "Barbados:Bridgetown Belize:Belmopan Canada:Ottawa Costa_Rica:San_José Cuba:Havana "
        "El_Salvador:San_Salvador Haiti:Port-au-Prince Honduras:Tegucigalpa Jamaica:Kingston Mexico:Mexico_City "
        "Nicaragua:Managua Panama:Panama_City"
    ),
    "South America": (
        "Argentina:Buenos_Aires Brazil:Brasília Chile:Santiago Colombia:Bogotá Ecuador:Quito Guyana:Georgetown "
        "Paraguay:Asunción* Peru:Lima Suriname:Paramaribo Uruguay:Montevideo Venezuela:Caracas"
    ),
    "Oceania": (
        "Australia:Canberra Fiji:Suva New_Zealand:Wellington Papua_New_Guinea:Port_Moresby Samoa:Apia "
        "Tonga:Nuku'alofa Vanuatu:Port_Vila"
    ),
}

COUNTRIES: Final = tuple(
    Country(name, capital.rstrip("*"), continent, capital.endswith("*"))
    for continent, entries in _COUNTRIES.items()
    for name, _, capital in (entry.replace("_", " ").partition(":") for entry in entries.split())
)

WEEKDAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTHS: Final = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)

WORDS: Final = tuple(
    [
        "anchor",
        "basin",
        "beacon",
        "border",
        "branch",
        "bridge",
        "bronze",
        "bucket",
        "button",
        "cable",
        "canal",
        "candle",
        "canyon",
        "carbon",
        "castle",
        "cement",
        "circle",
        "column",
        "copper",
        "corner",
        "desert",
        "engine",
        "fabric",
        "filter",
        "forest",
        "frame",
        "garden",
        "gravel",
        "hammer",
        "harbor",
        "helmet",
        "hinge",
        "island",
        "ladder",
        "lantern",
        "lever",
        "marble",
        "meadow",
        "mirror",
        "needle",
        "orbit",
        "paddle",
        "pillar",
        "planet",
        "pocket",
        "pulley",
        "quartz",
        "ribbon",
        "river",
        "saddle",
        "shadow",
        "shelter",
        "signal",
        "silver",
        "socket",
        "spiral",
        "spring",
        "square",
        "stone",
        "summit",
        "switch",
        "tunnel",
        "valley",
        "vessel",
        "window",
    ]
)
"""Words for ciphers and word counts."""

PARTS: Final = tuple(
    [
        "bolt",
        "bracket",
        "cable",
        "clamp",
        "fuse",
        "gasket",
        "hinge",
        "lever",
        "nut",
        "pipe",
        "pulley",
        "rivet",
        "rod",
        "screw",
        "shaft",
        "spring",
        "valve",
        "washer",
    ]
)
"""Things in a store, for records and tables."""
