#include "agent/proc/mpich_memory.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/directory.h"
#include "base/strings.h"

namespace muster::agent::mpich_memory_test {
namespace {

namespace fs = std::filesystem;
using ::testing::UnorderedElementsAre;

// FNV's own test vectors (http://www.isthe.com/chongo/tech/comp/fnv/).
TEST(MpichMemory, WorldsAreNamedByFnv1a) {
  EXPECT_EQ(mpich_world(""), "811c9dc5");
  EXPECT_EQ(mpich_world("a"), "e40c292c");
  EXPECT_EQ(mpich_world("foobar"), "bf9cf968");
}

TEST(MpichMemory, FilesOfTheWorldGoAndNoOthers) {
  const fs::path root = fs::path(::testing::TempDir()) / ("muster-mpich-" + std::to_string(::getpid()));
  fs::create_directories(root);
  const auto put = [&](const std::string& name) { std::ofstream(root / name) << "x"; };
  const std::string own = mpich_world("muster-abcdefgh-3");
  const std::string other = mpich_world("muster-abcdefgh-4");
  put("mpich_shm_" + own + "_0");
  put("mpich_vci_" + own + "_12");
  put("mpich_shm_" + other + "_0");
  put("mpich_shm_" + own);  // no node
  put("mine");
  EXPECT_TRUE(remove_mpich_memory(root.string(), "muster-abcdefgh-3").ok());
  EXPECT_THAT(base::entries_of(root.string()),
              UnorderedElementsAre("mine", "mpich_shm_" + other + "_0", "mpich_shm_" + own));
  EXPECT_TRUE(remove_mpich_memory((root / "nowhere").string(), "muster-abcdefgh-3").ok());
  fs::remove_all(root);
}

}  // namespace
}  // namespace muster::agent::mpich_memory_test
