#include "agent/stage/env_unpack.h"

#include <fcntl.h>

#include <gtest/gtest.h>

#include "tests/unit/agent/stage/env_fixture.h"
#include "tests/unit/support/temp_dir.h"

namespace muster::agent::env_unpack_test {
namespace {

using namespace env_test;

base::Result<std::string> unpacked(std::string_view packed, std::size_t piece,
                                   const std::atomic<bool>* stop = nullptr) {
  const testing_support::TempDir folder;
  EnvTree tree(base::UniqueFd(::open(folder.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)), "/new");
  const auto read = [&]() -> base::Result<std::string_view> {
    const std::string_view next = packed.substr(0, piece);
    packed.remove_prefix(next.size());
    return next;
  };
  return unpack_environment(read, tree, stop);
}

TEST(EnvUnpack, ReturnsTheId) {
  const Archive archive = archive_of({a_file("a", std::string(300'000, 'a')), a_file("b", "b")});
  for (const std::size_t piece : {std::size_t{1}, std::size_t{1000}, std::size_t{1} << 20}) {
    EXPECT_EQ(*unpacked(archive.packed, piece), archive.id);
  }
}

TEST(EnvUnpack, RefusesDamage) {
  const std::string packed = archive_of({a_file("a", "content")}).packed;
  for (std::size_t size = 0; size < packed.size(); ++size) {
    EXPECT_EQ(unpacked(packed.substr(0, size), 100).status().code(), base::Code::kDataLoss) << size;
  }
  EXPECT_EQ(unpacked(packed + packed, 100).status().code(), base::Code::kDataLoss);
}

TEST(EnvUnpack, PassesOnAnErrorOfReading) {
  const testing_support::TempDir folder;
  EnvTree tree(base::UniqueFd(::open(folder.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)), "/new");
  const auto failing = []() -> base::Result<std::string_view> { return base::unavailable("no disk"); };
  EXPECT_EQ(unpack_environment(failing, tree).status().message(), "no disk");
  const std::atomic<bool> stop{true};
  EXPECT_EQ(unpacked("", 1, &stop).status().code(), base::Code::kCancelled);
}

}  // namespace
}  // namespace muster::agent::env_unpack_test
