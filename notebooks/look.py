"""How the figures of the notebooks look: one size of type, colours that the colour-blind can tell apart, the same bytes every time."""

import base64
import io
import textwrap

import matplotlib.pyplot as plt
from IPython.display import display
from PIL import Image

BLUE, ORANGE, GREEN, PURPLE, SKY, YELLOW, BLACK, GREY = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#AA4499",
    "#56B4E9",
    "#E69F00",
    "#222222",
    "#8A8A8A",
)

GOOD, BAD, NEITHER = BLUE, ORANGE, BLACK
VERDICTS = {"Holds": BLUE, "Holds when": YELLOW, "Inconclusive": GREY, "Fails": ORANGE}

plt.rcParams.update(
    {
        "figure.dpi": 100,
        "figure.figsize": (8, 3.6),
        "figure.constrained_layout.use": True,
        "font.size": 10,
        "axes.titlesize": 10,
        "axes.titleweight": "bold",
        "axes.titlelocation": "left",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.axisbelow": True,
        "grid.color": "#E4E4E4",
        "grid.linewidth": 0.8,
        "legend.frameon": False,
        "legend.fontsize": 9,
        "lines.linewidth": 1.8,
    }
)


def show(figure, text):
    """Shows a figure under the finding it makes.

    Stored with a palette, a quarter of the size, and with neither version nor date: running a notebook again changes a
    figure only where its data changed. The finding is also what a reader without images gets.
    """
    title = textwrap.fill(text, int(10.3 * figure.get_size_inches()[0]))
    figure.suptitle(title, x=0.01, ha="left", fontsize=11.5, fontweight="bold")
    drawn, stored = io.BytesIO(), io.BytesIO()
    figure.savefig(drawn, format="png", facecolor="white")
    plt.close(figure)
    _small(Image.open(drawn).convert("RGB")).save(stored, format="png", optimize=True)
    display(
        {"image/png": base64.b64encode(stored.getvalue()).decode("ascii"), "text/plain": f"Figure: {text}"}, raw=True
    )


def _small(image):
    """The image with the 32 colours of its largest areas as they are, and 32 shades for the edges between them."""
    areas = [color for _, color in sorted(image.getcolors(1 << 24), reverse=True)[:32]]
    edges = image.quantize(32, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).getpalette()[: 3 * 32]
    palette = Image.new("P", (1, 1))
    palette.putpalette([part for color in areas for part in color] + edges)
    return image.quantize(palette=palette, dither=Image.Dither.NONE)


def rows(axes, labels):
    """Names down the vertical axis, the first on top."""
    axes.set_yticks(range(len(labels)), labels)
    axes.set_ylim(len(labels) - 0.5, -0.5)
    axes.grid(False, axis="y")


def interval(axes, y, middle, low, high, color, **more):
    """A point with its interval, in row `y`."""
    axes.plot([low, high], [y, y], color=color, linewidth=1.6, solid_capstyle="butt")
    axes.plot(middle, y, "o", color=color, markersize=5, **more)
