#include "agent/stacks/mapped_files.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::agent::mapped_files_test {
namespace {

using testing::ElementsAre;

TEST(MappedFiles, AreLibrariesOfPythonThenTheProgram) {
  constexpr std::string_view kMaps =
      "55d0c8a00000-55d0c8a01000 r--p 00000000 fe:01 131 /opt/my env/bin/python3.11\n"
      "55d0c8a01000-55d0c8a02000 r-xp 00001000 fe:01 131 /opt/my env/bin/python3.11\n"
      "7f0000000000-7f0000001000 r--p 00000000 fe:01 132 /usr/lib/libc.so.6\n"
      "7f0000002000-7f0000003000 r--p 00000000 fe:01 133 /opt/lib/libpython3.11.so.1.0 (deleted)\n"
      "7f0000003000-7f0000004000 rw-p 00000000 00:00 0 \n"
      "7ffc00000000-7ffc00001000 rw-p 00000000 00:00 0                          [stack]\n"
      "junk\n-\n";
  EXPECT_THAT(python_candidates(kMaps, "/opt/my env/bin/python3.11"),
              ElementsAre(MappedFile{0x7f0000002000, "/opt/lib/libpython3.11.so.1.0 (deleted)"},
                          MappedFile{0x55d0c8a00000, "/opt/my env/bin/python3.11"}));
}

// A program can map the library as data. That must not hide the loaded one.
TEST(MappedFiles, HoldEveryMappingOfALibrary) {
  constexpr std::string_view kMaps =
      "7f0000000000-7f0000001000 r--p 00000000 fe:01 133 /opt/libpython3.11.so\n"
      "7f0000002000-7f0000003000 r--p 00000000 fe:01 133 /opt/libpython3.11.so\n";
  EXPECT_THAT(python_candidates(kMaps, "/opt/train"), ElementsAre(MappedFile{0x7f0000000000, "/opt/libpython3.11.so"},
                                                                  MappedFile{0x7f0000002000, "/opt/libpython3.11.so"}));
}

TEST(MappedFiles, AreAFewEvenIfThereAreMany) {
  std::string maps;
  for (int i = 0; i < 100; ++i) maps += fmt::format("7f00000{:02x}000-7f0000100000 r--p 0 fe:01 1 /libpython3.so\n", i);
  maps += "7f0000200000-7f0000300000 r--p 0 fe:01 1 /train\n";
  const auto files = python_candidates(maps, "/train");
  EXPECT_LE(files.size(), kMaxMappedFiles);
  EXPECT_EQ(files.back().path, "/train");
}

}  // namespace
}  // namespace muster::agent::mapped_files_test
