"""scripts/get_data: a data set from a folder that mirrors it, its LMDBs and its mean."""
import gzip
import hashlib
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

from cluster import BIN, SOURCE, write_data


class GetData(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.place = pathlib.Path(folder.name)
        self.mirror = self.place / "mirror"
        write_data(self.mirror / "mnist", train=30, test=10)
        write_data(self.mirror / "fashion-mnist", train=20, test=5)
        # The script as it is, in a project whose published checksums are those of the small set.
        self.root = self.place / "project"
        (self.root / "scripts").mkdir(parents=True)
        (self.root / "configs").mkdir()
        shutil.copy(SOURCE / "scripts" / "get_data", self.root / "scripts")
        lines = []
        for name in ("mnist", "fashion-mnist"):
            for file in sorted((self.mirror / name).iterdir()):
                digest = hashlib.sha256(gzip.decompress(file.read_bytes())).hexdigest()
                lines.append(f"{name} {file.name} {digest}\n")
        lines.append(f"tinyshakespeare input.txt {'0' * 64}\n")
        (self.root / "configs" / "data_sets.txt").write_text("".join(lines))

    def build(self):
        (self.root / "build" / "release").mkdir(parents=True)
        (self.root / "build" / "release" / "bin").symlink_to(BIN)

    def get_data(self, *words):
        env = {"PATH": "/usr/bin:/bin", "TAUTLINE_DATA_MIRROR": str(self.mirror)}
        return subprocess.run([self.root / "scripts" / "get_data", *words], capture_output=True,
                              text=True, timeout=100, env=env, cwd=self.place)

    def convert(self, *words):
        return subprocess.run([BIN / "tautline", "convert", *words], capture_output=True, text=True,
                              timeout=100, cwd=self.place, env={**os.environ})

    def test_get_data_makes_lmdbs_and_the_mean(self):
        self.build()
        wanted = ["mnist", "--lmdb", "lmdb", "--mean", "mean.binaryproto"]
        done = self.get_data(*wanted)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("lmdb/train holds 30 images of 1x8x8", done.stdout)
        self.assertIn("lmdb/test holds 10 images of 1x8x8", done.stdout)
        self.assertEqual(sorted(path.name for path in (self.place / "lmdb").iterdir()),
                         ["test", "train"])
        # The LMDBs hold the set: their mean is the set's own, to the byte.
        mean = (self.place / "mean.binaryproto").read_bytes()
        for part, images in (("train", 30), ("test", 10)):
            again = self.convert(f"lmdb/{part}", "--mean", "again")
            self.assertIn(f"{images} images", again.stdout, again.stderr)
            self.assertEqual((self.place / "again").read_bytes() == mean, part == "train")
        # Existing files are kept.
        before = (self.place / "lmdb/train/data.mdb").stat()
        done = self.get_data(*wanted)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("lmdb/train exists already", done.stdout)
        after = (self.place / "lmdb/train/data.mdb").stat()
        self.assertEqual((after.st_ino, after.st_mtime_ns), (before.st_ino, before.st_mtime_ns))

    def test_get_data_refuses_the_lmdb_of_another_set(self):
        self.build()
        self.assertEqual(self.get_data("mnist", "--lmdb", "lmdb").returncode, 0)
        before = (self.place / "lmdb/train/data.mdb").read_bytes()
        other = self.get_data("fashion-mnist", "--lmdb", "lmdb", "--mean", "mean.binaryproto")
        self.assertEqual(other.returncode, 1, other.stdout)
        self.assertEqual(other.stderr, "get_data: lmdb/train is an LMDB of mnist, not of "
                                       "fashion-mnist as it is now: remove it, or name another "
                                       "folder with --lmdb\n")
        self.assertFalse((self.place / "mean.binaryproto").exists())
        self.assertFalse((self.root / "data" / "fashion-mnist").exists())
        self.assertEqual((self.place / "lmdb/train/data.mdb").read_bytes(), before)
        # Only one of the two is another set's.
        shutil.rmtree(self.place / "lmdb" / "train")
        other = self.get_data("fashion-mnist", "--lmdb", "lmdb")
        self.assertEqual(other.returncode, 1, other.stdout)
        self.assertIn("lmdb/test is an LMDB of mnist", other.stderr)
        self.assertEqual([path.name for path in (self.place / "lmdb").iterdir()], ["test"])
        # The same set, of other files.
        marker = self.place / "lmdb" / "test" / "data_set.txt"
        words = marker.read_text()
        marker.write_text(words.replace("a", "b"))
        other = self.get_data("mnist", "--lmdb", "lmdb")
        self.assertEqual(other.returncode, 1, other.stdout)
        self.assertIn("lmdb/test is an LMDB of mnist with other checksums", other.stderr)
        marker.unlink()
        unknown = self.get_data("mnist", "--lmdb", "lmdb")
        self.assertEqual(unknown.returncode, 1, unknown.stdout)
        self.assertRegex(unknown.stderr, r"^get_data: lmdb/test .* without data_set.txt[^\n]*\n$")
        # With its own marker restored, missing files are created, and existing ones are kept.
        marker.write_text(words)
        done = self.get_data("mnist", "--lmdb", "lmdb")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("lmdb/train holds 30 images", done.stdout)
        self.assertIn("lmdb/test exists already", done.stdout)

    def test_get_data_says_what_converting_needs_before_it_fetches(self):
        done = self.get_data("mnist", "--mean", "mean.binaryproto")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr, "get_data: --lmdb and --mean need the program tautline, "
                                      "which is not built: run scripts/build\n")
        self.assertFalse((self.root / "data").exists())
        text = self.get_data("tinyshakespeare", "--lmdb", "lmdb")
        self.assertEqual(text.returncode, 2)
        self.assertIn("is a text", text.stderr)
        for words in (["mnist", "--lmdb"], ["mnist", "--lmbd", "x"], ["mnist", "a", "b"]):
            self.assertNotEqual(self.get_data(*words).returncode, 0, words)
        self.assertFalse((self.root / "data").exists())
        # Without it nothing is needed.
        done = self.get_data("mnist")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("SHA-256 as published (fetched)", done.stdout)

    def test_get_data_leaves_nothing_of_an_lmdb_that_fails(self):
        self.build()
        (self.place / "lmdb" / "train").mkdir(parents=True)
        (self.place / "lmdb" / "train" / "a file").touch()
        done = self.get_data("mnist", "--lmdb", "lmdb")
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual([path.name for path in (self.place / "lmdb").iterdir()], ["train"])

    def test_get_data_checks_a9a_by_its_records_and_labels(self):
        folder = self.mirror / "a9a"
        folder.mkdir()
        for name, records, positive in (("a9a", 32561, 7841), ("a9a.t", 16281, 3846)):
            (folder / name).write_text("".join(
                f"{'+1' if i < positive else '-1'} {1 + i % 110}:1 123:1 \n"
                for i in range(records)))
        done = self.get_data("a9a", "out")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("a9a: all of it is in out, records and labels as published (fetched)\n",
                      done.stdout)
        self.assertIn("(there already)", self.get_data("a9a", "out").stdout)
        # A damaged file is not used, and no other place has the set.
        with open(folder / "a9a.t", "a", encoding="ascii") as file:
            file.write("+1 124:1\n")
        (self.place / "out" / "a9a.t").unlink()
        done = self.get_data("a9a", "out")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("a9a.t has other records or labels than the published file", done.stderr)
        self.assertEqual(self.get_data("a9a", "--mean", "mean").returncode, 2)


if __name__ == "__main__":
    unittest.main()
