"""From words and a seed to a recipe: which landscape, in which light, with which colours.

All choices are drawn from a hash of the words and the seed; a small table of words in English and
Chinese steers them.
"""

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

Colour = tuple[float, float, float]

LIGHTS = ("dawn", "day", "sunset", "night")
# Where a text names two, the earlier one here is the ground; "sea" also adds water to another.
GROUNDS = ("city", "spring", "desert", "snow", "forest", "meadow", "mountain", "sea")
# Where a text names no light.
_SUITED_LIGHTS = {
    "spring": ("dawn", "day"),
    "meadow": ("dawn", "day", "sunset"),
    "city": ("dawn", "sunset", "night"),
    "desert": ("dawn", "sunset", "night"),
}

_WORDS: dict[str, str] = {
    "dawn": "dawn sunrise morning 清晨 早晨 日出 黎明 晨",
    "day": "day noon daylight sunny afternoon summer 白天 正午 晴 夏 蓝天",
    "sunset": "sunset dusk evening twilight autumn golden 日落 黄昏 夕阳 傍晚 晚霞 秋",
    "night": "night midnight moon moonlight star starry galaxy 夜 月 星 银河",
    "sea": "sea ocean lake water river beach island coast 海 湖 水 河 江 岛 沙滩",
    "forest": "forest wood woodland tree pine jungle 森林 树 林",
    "desert": "desert dune sand sahara 沙漠 沙丘 戈壁",
    "snow": "snow snowy winter ice glacier arctic 雪 冬 冰",
    "city": "city town skyline skyscraper street urban cyberpunk 城市 都市 城 街 高楼",
    "spring": "spring blossom cherry sakura flower petal 春 樱 花 桃",
    "mountain": "mountain peak alps valley cliff 山 峰 谷",
    "meadow": "meadow field grass hill prairie countryside 草原 田野 草 丘陵",
    "cloud": "cloud cloudy overcast 云 阴",
    "aurora": "aurora borealis 极光",
    "mist": "mist misty fog foggy haze 雾 霭",
}

# Sky at the top, in the middle and at the horizon; sun or moon; lit and shaded cloud; near land.
_PALETTES: dict[str, tuple[str, ...]] = {
    "dawn": (
        "33477f b98bad ffcfa6 fff0cf ffe3cf 8f7ba6 2b3350",
        "2f5f86 8fb6bd ffe1b5 fff6dc fff0dc 8098aa 23404a",
        "4a3f86 c58fc4 ffc4c0 fff0e0 ffdce0 8b74ac 332a54",
    ),
    "day": (
        "1f66b5 74b2e4 dff0f6 fffbe8 ffffff 9db4cc 23473f",
        "2a86b8 86cbd6 f2f4dc fffbe8 fffdf4 a3bcc4 2c5140",
        "3c6fae 93b9e0 f7e6d6 fff6dc fff7ee a7afc6 31483f",
    ),
    "sunset": (
        "2a2458 b5476f ffab5c ffe6a6 ffb784 5d3b6b 1e1733",
        "1d3a5c 7f6f92 ffb877 ffeab8 ffc79b 55587c 172438",
        "40204f d0503f ffc14f fff0ae ffa468 6a2f51 261026",
        "17425c 5aa09a ffcf8f fff2c6 ffd7a8 4d7a86 10303a",
    ),
    "night": (
        "050a20 13285a 3d5f94 f6f2df 5a74a8 1a2a56 050a1a",
        "0a0824 2c1f5e 6f4f96 f4ecf4 7866ae 231c52 0a071c",
        "04141f 0c3a52 3f8590 effaf0 4f8ea0 123a50 03121a",
    ),
}


@dataclass(frozen=True)
class Palette:
    """The colours of one light, each as red, green, blue in 0..1."""

    top: Colour
    middle: Colour
    horizon: Colour
    light: Colour
    cloud_lit: Colour
    cloud_shade: Colour
    land: Colour


@dataclass(frozen=True)
class Dice:
    """Named random draws: a draw added later changes no other one."""

    key: bytes

    def word(self, name: str) -> int:
        """A 32-bit salt."""
        digest = hashlib.blake2b(name.encode(), key=self.key, digest_size=4).digest()
        return int.from_bytes(digest, "little")

    def between(self, name: str, low: float, high: float) -> float:
        return low + (high - low) * (self.word(name) / 2.0**32)

    def chance(self, name: str, probability: float) -> bool:
        return self.between(name, 0.0, 1.0) < probability

    def pick(self, name: str, choices: Sequence[str]) -> str:
        return choices[self.word(name) % len(choices)]


@dataclass(frozen=True)
class Recipe:
    """All that decides a scene but its size. Positions are fractions of the width and height."""

    dice: Dice
    light: str
    ground: str
    traits: frozenset[str]
    palette: Palette
    horizon: float
    sun_x: float
    sun_y: float
    has_water: bool
    vividness: float

    @property
    def is_night(self) -> bool:
        return self.light == "night"


def compose(prompt: str, negative_prompt: str, guidance_scale: float, seed: int) -> Recipe:
    """Decide on a scene. Words of the negative prompt take their subject out of it again."""
    dice = _dice_for(prompt, negative_prompt, seed)
    unwanted = _traits_in(negative_prompt)
    traits = _traits_in(prompt) - unwanted
    ground = _choose(dice, "ground", GROUNDS, wanted=traits, unwanted=unwanted, suited=GROUNDS)
    # An aurora is seen by night.
    wish = traits | {"night"} if "aurora" in traits and not traits & set(LIGHTS) else traits
    suited = _SUITED_LIGHTS.get(ground, LIGHTS)
    light = _choose(dice, "light", LIGHTS, wanted=wish, unwanted=unwanted, suited=suited)
    # A low sun belongs to the ends of the day.
    lowest = {"day": 0.5, "night": 0.6}.get(light, 0.93)
    horizon = dice.between("horizon", 0.56, 0.68)
    return Recipe(
        dice=dice,
        light=light,
        ground=ground,
        traits=traits,
        palette=_palette(dice, light),
        horizon=horizon,
        sun_x=dice.between("sun_x", 0.2, 0.8),
        sun_y=horizon * dice.between("sun_y", 0.55 * lowest, lowest),
        has_water=_has_water(dice, ground, traits, unwanted),
        vividness=_vividness(guidance_scale),
    )


def _dice_for(prompt: str, negative_prompt: str, seed: int) -> Dice:
    # JSON keeps the three apart and escapes every character, lone surrogates too.
    text = json.dumps([prompt, negative_prompt, seed])
    return Dice(hashlib.sha256(text.encode("ascii")).digest())


def _traits_in(text: str) -> frozenset[str]:
    lowered = text.lower()
    tokens = set(re.findall(r"[a-z]+", lowered))
    tokens |= {token.removesuffix("s") for token in tokens}
    return frozenset(
        trait
        for trait, words in _WORDS.items()
        # Chinese is written without spaces, so its words are looked for anywhere.
        if any(word in (tokens if word.isascii() else lowered) for word in words.split())
    )


def _choose(
    dice: Dice,
    name: str,
    choices: Sequence[str],
    *,
    wanted: frozenset[str],
    unwanted: frozenset[str],
    suited: Sequence[str],
) -> str:
    """The first choice that the words name; without one, any suited choice they don't forbid."""
    named = [choice for choice in choices if choice in wanted]
    if named:
        return named[0]
    return dice.pick(name, [choice for choice in suited if choice not in unwanted] or choices)


def _palette(dice: Dice, light: str) -> Palette:
    colours = dice.pick("palette", _PALETTES[light]).split()
    return Palette(*(_tinted(dice, index, text) for index, text in enumerate(colours)))


def _tinted(dice: Dice, index: int, text: str) -> Colour:
    """The colour written as six hexadecimal digits, moved a little by the dice."""
    red, green, blue = (
        min(1.0, max(0.0, value / 255.0 + dice.between(f"tint {index} {channel}", -0.05, 0.05)))
        for channel, value in enumerate(bytes.fromhex(text))
    )
    return red, green, blue


def _has_water(dice: Dice, ground: str, traits: frozenset[str], unwanted: frozenset[str]) -> bool:
    if ground == "sea" or "sea" in traits:
        return True
    likely = {"city": 1.0, "mountain": 0.7, "snow": 0.5, "spring": 0.5}.get(ground, 0.0)
    return "sea" not in unwanted and dice.chance("water", likely)


def _vividness(guidance_scale: float) -> float:
    """Guidance as 0..1, with 0.5 at the usual 7.5; anything odd counts as no guidance."""
    guidance = guidance_scale if 0.0 <= guidance_scale <= 1e6 else 0.0
    return guidance / (guidance + 7.5)
