"""What the data sets of the catalogue are: task, paper and statistics.

Edges are counted once, without direction, self-loops and duplicates; homophily is the fraction of edges that join nodes
of the same class. Statistics are measured on the loaded data, or taken from a publication, which may count edges in
another way.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Description:
    """What a data set is.

    Attributes:
        task: what is to be predicted, and what the edges are.
        paper: the publications to cite.
        nodes, edges, features, classes: numbers of them.
        homophily: edge homophily; None if it is not known.
        measured: whether the statistics are those of the loaded data, not those of a publication.
    """

    task: str
    paper: str
    nodes: int = 0
    edges: int = 0
    features: int = 0
    classes: int = 0
    homophily: float | None = None
    measured: bool = True


UNDESCRIBED = Description("", "")

_GEOM_GCN = "Pei et al. (2020), arXiv:2002.05287"
_PLATONOV = "Platonov et al. (2023), arXiv:2302.11640"
_LINKX = "Lim et al. (2021), arXiv:2110.14446"
_OGB = "Hu et al. (2020), arXiv:2005.00687"

_WIKIPEDIA = Description(
    "traffic of Wikipedia pages, in five ranges; edges are links",
    f"Rozemberczki et al. (2021), arXiv:1909.13021; {_GEOM_GCN}",
)
_PLANETOID = Description("topics of papers; edges are citations", "Yang et al. (2016), arXiv:1603.08861")
_WEBKB = Description("kinds of university web pages; edges are links", _GEOM_GCN)
_AMAZON = Description(
    "categories of products; edges join products bought together", "Shchur et al. (2018), arXiv:1811.05868"
)
_COAUTHOR = Description("fields of authors; edges join co-authors", "Shchur et al. (2018), arXiv:1811.05868")
_CITATION_FULL = Description(
    "topics of papers; edges are citations", "Bojchevski and Günnemann (2018), arXiv:1707.03815"
)
_FACEBOOK = Description(
    "genders of Facebook users at a campus; edges are friendships", "Traud et al. (2012), arXiv:1102.2166"
)
_LINKX_FACEBOOK = replace(_FACEBOOK, paper=f"{_FACEBOOK.paper}; {_LINKX}")
_DEDUPLICATED = replace(_WIKIPEDIA, task=f"{_WIKIPEDIA.task}, duplicate nodes are removed", paper=_PLATONOV)


def _measured(about: Description, statistics: dict[str, tuple[int, int, int, int, float]]) -> dict[str, Description]:
    return {name: Description(about.task, about.paper, *numbers) for name, numbers in statistics.items()}


def _published(
    about: Description, name: str, nodes: int, edges: int, features: int, classes: int, homophily: float | None = None
) -> dict[str, Description]:
    numbers = (nodes, edges, features, classes, homophily)
    return {name: Description(about.task, about.paper, *numbers, measured=False)}


DESCRIPTIONS: dict[str, Description] = {
    **_measured(
        _WIKIPEDIA, {"chameleon": (2277, 31371, 2325, 5, 0.230), "squirrel": (5201, 198353, 2089, 5, 0.222)}
    ),
    **_measured(
        Description("categories of actors; edges join actors named on the same Wikipedia page", _GEOM_GCN),
        {"actor": (7600, 26659, 932, 5, 0.217)},
    ),
    **_measured(
        _PLANETOID,
        {
            "cora": (2708, 5278, 1433, 7, 0.810),
            "citeseer": (3327, 4552, 3703, 6, 0.736),
            "pubmed": (19717, 44324, 500, 3, 0.802),
        },
    ),
    **_measured(_WEBKB, {"texas": (183, 279, 1703, 5, 0.061), "cornell": (183, 277, 1703, 5, 0.123)}),
    **_published(_WEBKB, "wisconsin", 251, 515, 1703, 5),
    **_measured(_DEDUPLICATED, {"chameleon-filtered": (890, 8854, 2325, 5, 0.236)}),
    **_published(_DEDUPLICATED, "squirrel-filtered", 2223, 46998, 2089, 5),
    **_published(
        Description("syntactic roles of words; edges join consecutive words and words linked by syntax", _PLATONOV),
        "roman-empire", 22662, 32927, 300, 18,
    ),
    **_published(
        Description("mean ratings of products; edges join products bought together", _PLATONOV),
        "amazon-ratings", 24492, 93050, 300, 5,
    ),
    **_published(
        Description("mines in a grid; edges join neighbouring cells", _PLATONOV),
        "minesweeper", 10000, 39402, 7, 2,
    ),
    **_measured(
        Description("banned workers; edges join workers on the same tasks", _PLATONOV),
        {"tolokers": (11758, 519000, 10, 2, 0.595)},
    ),
    **_published(
        Description("users who stay active; edges join users who answered each other's questions", _PLATONOV),
        "questions", 48921, 153540, 301, 2,
    ),
    **_measured(_AMAZON, {"amazon-computers": (13752, 245861, 767, 10, 0.777)}),
    **_published(_AMAZON, "amazon-photo", 7650, 119081, 745, 8),
    **_measured(_COAUTHOR, {"coauthor-cs": (18333, 81894, 6805, 15, 0.808)}),
    **_published(_COAUTHOR, "coauthor-physics", 34493, 247962, 8415, 5),
    **_measured(
        _CITATION_FULL, {"dblp": (17716, 52867, 1639, 4, 0.828), "cora-ml": (2995, 8158, 2879, 7, 0.789)}
    ),
    **_published(_CITATION_FULL, "cora-full", 19793, 63421, 8710, 70),
    **_published(_CITATION_FULL, "citeseer-full", 4230, 5337, 602, 6),
    **_published(_CITATION_FULL, "pubmed-full", 19717, 44324, 500, 3),
    **_measured(
        Description("interests of bloggers; edges are friendships", "Yang et al. (2020), arXiv:2009.00826"),
        {"blogcatalog": (5196, 171743, 8189, 6, 0.401)},
    ),
    **_published(_LINKX_FACEBOOK, "penn94", 41554, 1362229, 4814, 2, homophily=0.470),
    **_published(_LINKX_FACEBOOK, "reed98", 962, 18812, 745, 2),
    **_published(_LINKX_FACEBOOK, "amherst41", 2235, 90954, 1193, 2),
    **_measured(
        _LINKX_FACEBOOK,
        {"cornell5": (18660, 790777, 4735, 2, 0.546), "johnshopkins55": (5180, 186586, 2406, 2, 0.549)},
    ),
    **_measured(
        _FACEBOOK,
        {
            "berkeley13": (22937, 852444, 2916, 2, 0.530),
            "brown11": (8600, 384526, 2853, 2, 0.516),
            "bucknell39": (3826, 158864, 1925, 2, 0.572),
            "carnegie49": (6637, 249967, 2539, 2, 0.550),
            "columbia2": (11770, 444333, 3384, 2, 0.555),
            "hamilton46": (2314, 96394, 1185, 2, 0.549),
            "maryland58": (20871, 744862, 2672, 2, 0.530),
            "northeastern19": (13882, 381934, 3220, 2, 0.501),
            "northwestern25": (10567, 488337, 3469, 2, 0.558),
            "oberlin44": (2920, 89912, 1578, 2, 0.516),
            "oklahoma97": (17425, 892528, 2309, 2, 0.565),
            "rochester38": (4563, 161404, 2080, 2, 0.538),
            "rutgers89": (24580, 784602, 2339, 2, 0.518),
            "tufts18": (6682, 249728, 2255, 2, 0.536),
            "uc33": (16808, 522147, 1856, 2, 0.518),
            "uchicago30": (6591, 208103, 2769, 2, 0.523),
            "uconn91": (17212, 604870, 2372, 2, 0.510),
            "ucsd34": (14948, 443221, 1809, 2, 0.521),
            "umass92": (16516, 519385, 2310, 2, 0.483),
            "unc28": (18163, 766800, 2792, 2, 0.542),
            "usc35": (17444, 801853, 3912, 2, 0.547),
            "usfca72": (2682, 65252, 1113, 2, 0.563),
            "vassar85": (3068, 119161, 1628, 2, 0.518),
            "vermont70": (7324, 191221, 2093, 2, 0.527),
            "wake73": (5372, 279191, 2300, 2, 0.573),
            "wesleyan43": (3593, 138035, 1648, 2, 0.522),
            "williams40": (2790, 112986, 1396, 2, 0.536),
            "wisconsin87": (23842, 835952, 3307, 2, 0.530),
        },
    ),
    **_published(
        Description("accounts of genius.com marked as gone; edges are follows", f"{_LINKX}; arXiv:2006.08108"),
        "genius", 421961, 984979, 12, 2, homophily=0.618,
    ),
    **_published(
        Description("Twitch channels with explicit content; edges are follows", f"arXiv:2101.03091; {_LINKX}"),
        "twitch-gamers", 168114, 6797557, 7, 2, homophily=0.545,
    ),
    **_published(
        Description("genders of Pokec users; edges are friendships", _LINKX),
        "pokec", 1632803, 30622564, 65, 2, homophily=0.445,
    ),
    **_published(
        Description("views of Wikipedia pages, in five ranges; edges are links", _LINKX),
        "wiki", 1925342, 303434860, 600, 5, homophily=0.389,
    ),
    **_published(
        Description("years of papers, in five ranges; edges are citations", f"{_LINKX}; {_OGB}"),
        "arxiv-year", 169343, 1166243, 128, 5,
    ),
    **_published(
        Description("subjects of computer science papers; edges are citations", _OGB),
        "ogbn-arxiv", 169343, 1166243, 128, 40,
    ),
    **_published(
        Description("categories of products; edges join products bought together", _OGB),
        "ogbn-products", 2449029, 61859140, 100, 47,
    ),
    **_published(
        Description("subjects of arXiv papers; edges are citations", _OGB),
        "ogbn-papers100M", 111059956, 1615685872, 128, 172,
    ),
    **_measured(
        Description("blocks of a contextual stochastic block model", "Deshpande et al. (2018), arXiv:1807.09596"),
        {"csbm": (1000, 2595, 200, 2, 0.168)},
    ),
    **_measured(
        Description(
            "mines on a board of Minesweeper; edges join neighbouring cells",
            "construction of Platonov et al. (2023), arXiv:2302.11640",
        ),
        {"mine-board": (10000, 39402, 10, 2, 0.669)},
    ),
}  # fmt: skip
