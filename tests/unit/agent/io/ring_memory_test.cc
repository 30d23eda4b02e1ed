#include "agent/io/ring_memory.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include <gtest/gtest.h>

#include "agent/io/frame_ring.h"
#include "tests/unit/support/temp_dir.h"

namespace muster::agent::ring_memory_test {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr std::size_t kFirst = 4 * kMiB;
constexpr std::size_t kSpool = 40 * kMiB;

class RingMemoryTest : public ::testing::Test {
 protected:
  std::unique_ptr<RingMemory> spool() {
    auto made = make_spool_memory(kFirst, kSpool, path_);
    EXPECT_TRUE(made.ok()) << made.status();
    return std::move(*made);
  }
  bool is_empty() const { return std::filesystem::is_empty(path_); }

  testing_support::TempDir dir_;
  const std::string& path_ = dir_.path();
};

// 64 KiB of payload with a recognisable content.
bool add(FrameRing& ring, std::size_t number) {
  const std::string payload(64 << 10, static_cast<char>('a' + number % 26));
  char* const room = ring.reserve(payload.size());
  if (room == nullptr) return false;
  std::memcpy(room, payload.data(), payload.size());
  ring.commit({.kind = proto::OutputKind::kData, .length = static_cast<std::uint32_t>(payload.size())});
  return true;
}

std::size_t fill(FrameRing& ring) {
  std::size_t count = 0;
  while (add(ring, count)) ++count;
  return count;
}

// All frames that are unsent, checked; the number of the last one.
std::uint64_t send_all(FrameRing& ring, std::uint64_t before) {
  std::string bytes;
  while (!ring.unsent().empty()) {
    bytes += ring.unsent();
    ring.mark_sent(ring.unsent().size());
  }
  std::string_view rest = bytes;
  while (!rest.empty()) {
    const auto parse = proto::parse_output_frame(rest);
    EXPECT_TRUE(parse.ok() && parse->state == proto::OutputParse::State::kFrame);
    if (!parse.ok() || parse->state != proto::OutputParse::State::kFrame) return before;
    EXPECT_EQ(parse->frame.header.sequence, before + 1);
    before = parse->frame.header.sequence;
    const char letter = static_cast<char>('a' + (before - 1) % 26);
    EXPECT_EQ(parse->frame.payload.find_first_not_of(letter), std::string_view::npos) << "frame " << before;
    rest.remove_prefix(parse->size);
  }
  return before;
}

TEST_F(RingMemoryTest, MemoryComesFirstAndTheFileHasNoName) {
  const auto memory = spool();
  EXPECT_EQ(memory->size(), kFirst);
  EXPECT_TRUE(memory->grow(kFirst));
  EXPECT_EQ(memory->size(), kFirst);
  EXPECT_TRUE(memory->grow(kFirst + 1));
  EXPECT_GT(memory->size(), kFirst);
  EXPECT_TRUE(is_empty());
  std::memset(memory->data(), 'x', memory->size());
  EXPECT_TRUE(memory->grow(kFirst + kSpool));
  EXPECT_EQ(memory->data()[kFirst + kMiB], 'x');
  EXPECT_EQ(memory->size(), kFirst + kSpool);
  EXPECT_FALSE(memory->grow(kFirst + kSpool + 1));
  memory->shrink();
  EXPECT_EQ(memory->size(), kFirst);
  EXPECT_TRUE(memory->grow(kFirst + kSpool));
}

TEST_F(RingMemoryTest, ARingKeepsWhatIsNotTakenUpToItsBound) {
  FrameRing ring(spool());
  const std::size_t count = fill(ring);
  EXPECT_GE(count, (kFirst + kSpool) / (65 << 10));
  EXPECT_LE(count, (kFirst + kSpool) / (64 << 10));
  EXPECT_EQ(send_all(ring, 0), count);
  // A cut: what lies above the number is sent again.
  ASSERT_TRUE(ring.resume_after(count / 2).ok());
  EXPECT_EQ(send_all(ring, count / 2), count);
  ASSERT_TRUE(ring.acknowledge(count).ok());
  EXPECT_TRUE(ring.is_empty());
}

// The ring goes around in memory for long before the launcher is gone: then it must go on behind that.
TEST_F(RingMemoryTest, ARingThatHasGoneAroundGrowsAsWell) {
  FrameRing ring(spool());
  std::size_t number = 0;
  std::uint64_t sent = 0;
  std::uint64_t taken = 0;
  for (int i = 0; i < 500; ++i) {
    ASSERT_TRUE(add(ring, number++));
    sent = send_all(ring, sent);
    taken = sent > 2 ? sent - 2 : 0;
    ASSERT_TRUE(ring.acknowledge(taken).ok());
  }
  std::size_t more = 0;
  while (add(ring, number)) {
    ++number;
    ++more;
  }
  EXPECT_GT(more, kSpool / (66 << 10));
  ASSERT_TRUE(ring.resume_after(taken).ok());
  EXPECT_EQ(send_all(ring, taken), number);
  ASSERT_TRUE(ring.acknowledge(number).ok());
}

// In a child, since a limit of a process is met: the kernel sends SIGXFSZ, which the agent ignores.
TEST_F(RingMemoryTest, AFullDiskIsOnlyNoMoreRoom) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{18 * kMiB, 18 * kMiB};
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) ::_exit(2);
    FrameRing ring(spool());
    const std::size_t count = fill(ring);
    const std::size_t bytes = count * (64 << 10);
    const bool is_bounded = bytes > 18 * kMiB && bytes < 24 * kMiB;
    ::_exit(is_bounded && send_all(ring, 0) == count && !HasFailure() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

// A file system that is really full, where the machine lets us have one.
TEST_F(RingMemoryTest, AFullFileSystemIsOnlyNoMoreRoom) {
  if (::mount("none", path_.c_str(), "tmpfs", 0, "size=24m") != 0) GTEST_SKIP() << "no file system can be mounted here";
  {
    FrameRing ring(spool());
    const std::size_t count = fill(ring);
    EXPECT_GT(count, 16 * kMiB / (65 << 10));
    EXPECT_LT(count, 29 * kMiB / (64 << 10));
    EXPECT_EQ(send_all(ring, 0), count);
    ASSERT_TRUE(ring.acknowledge(count).ok());
    EXPECT_GT(fill(ring), count / 2);  // given back, and had again
  }
  EXPECT_EQ(::umount(path_.c_str()), 0);
}

TEST_F(RingMemoryTest, WithoutItsDirectoryThereIsTheMemory) {
  auto made = make_spool_memory(kFirst, kSpool, path_ + "/missing");
  ASSERT_TRUE(made.ok());
  EXPECT_FALSE((*made)->grow(kFirst + 1));
  EXPECT_EQ((*made)->size(), kFirst);
}

}  // namespace
}  // namespace muster::agent::ring_memory_test
