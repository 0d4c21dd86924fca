"""The wheel of the package, with the library and the programs of a build inside: scripts/wheel puts
all of it in one folder and runs this there."""

import os
import platform

from setuptools import setup
from wheel.bdist_wheel import bdist_wheel


class Wheel(bdist_wheel):
    """For any Python 3, as the package uses the library by ctypes, and this kind of machine."""

    def finalize_options(self):
        super().finalize_options()
        self.root_is_pure = False

    def get_tag(self):
        return "py3", "none", f"linux_{platform.machine()}"


setup(
    name="tautline",
    version=os.environ["TAUTLINE_VERSION"],
    description="Training with a parameter server and a tunable staleness bound",
    python_requires=">=3.10",
    install_requires=["numpy>=1.22"],
    packages=["tautline", "tautline.torch"],
    package_data={"tautline": ["py.typed", "lib/*", "bin/*"]},
    zip_safe=False,
    cmdclass={"bdist_wheel": Wheel},
)
