"""Folders of generated photographs for the tests."""

import numpy as np
from PIL import Image

CLASSES = ("n01440764", "n01443537", "n02099601")


def photo(rng, width=60, height=48):
    """Smooth colours with some noise, so that JPEG keeps them."""
    coarse = rng.integers(0, 256, (4, 5, 3)).astype(np.uint8)
    smooth = np.asarray(Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC), np.int64)
    return np.clip(smooth + rng.integers(-9, 10, smooth.shape), 0, 255).astype(np.uint8)


def write_set(root, *, each=6, seed=0, validation=2):
    """train/<class>/ and val/<class>/ with JPEGs of different sizes."""
    rng = np.random.default_rng(seed)
    for part, count in (("train", each), ("val", validation)):
        for name in CLASSES:
            folder = root / part / name
            folder.mkdir(parents=True)
            for i in range(count):
                width, height = rng.integers(40, 90, 2)
                Image.fromarray(photo(rng, width, height)).save(folder / f"{name}_{i}.JPEG", quality=90)
    return root


def write_odd_files(folder, seed=1):
    """Pictures in every form that must be read, named after what is odd about them."""
    picture = Image.fromarray(photo(np.random.default_rng(seed)))
    picture.convert("L").save(folder / "grey.JPEG")
    picture.convert("CMYK").save(folder / "cmyk.JPEG")
    picture.save(folder / "a png.JPEG", format="PNG")
    picture.convert("P").save(folder / "palette.png", transparency=bytes(range(256)))
    picture.convert("RGBA").save(folder / "alpha.png")
    picture.convert("1").save(folder / "bits.png")
    Image.fromarray(np.arange(60 * 48, dtype=np.uint16).reshape(48, 60) * 20).save(folder / "sixteen bits.png")
    picture.save(folder / "exif.jpg", exif=b"Exif\x00\x00II*\x00\x08\x00\x00\x00\xff\xff damaged")
    picture.save(folder / "ünïcode \n name.jpeg")
    picture.save(folder / "UPPER.JPG", progressive=True)
    picture.resize((2, 300)).save(folder / "thin.bmp")
    (folder / "a link.jpg").symlink_to(folder / "grey.JPEG")
    return 12


def write_bad_files(folder, seed=2):
    """Files that cannot be read, with a word of the reason that must be given."""
    picture = Image.fromarray(photo(np.random.default_rng(seed), 200, 150))
    whole = folder / "whole.jpg"
    picture.save(whole)
    (folder / "cut.jpg").write_bytes(whole.read_bytes()[:1500])
    whole.unlink()
    (folder / "empty.JPEG").touch()
    (folder / "text.jpg").write_text("this is not a picture\n" * 20)
    (folder / "nowhere.png").symlink_to(folder / "missing.png")
    header = b"BM" + (54).to_bytes(4, "little") + bytes(4) + (54).to_bytes(4, "little") + (40).to_bytes(4, "little")
    size = (30_000).to_bytes(4, "little") * 2
    (folder / "bomb.bmp").write_bytes(header + size + b"\x01\x00\x18\x00" + bytes(24))
    return {
        "cut.jpg": "cut short",
        "empty.JPEG": "is empty",
        "text.jpg": "not a picture",
        "nowhere.png": "a link that leads nowhere",
        "bomb.bmp": "pixels",
    }
