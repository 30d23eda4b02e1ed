#include "agent/process/carried_program.h"

#include <fcntl.h>
#include <lzma.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "base/directory.h"
#include "base/file.h"

namespace muster::agent::carried_program_test {
namespace {

constexpr std::size_t kMostBytes = std::size_t{64} << 20;

// What the program says, up to its full stop; it is ended and reaped.
std::string said_by(const std::string& bytes, std::vector<std::string> environment = {}) {
  auto child = start_carried({.name = "carried", .bytes = bytes, .environment = std::move(environment)});
  if (!child.ok()) return child.status().message();
  std::string said;
  for (char byte = 0; !said.ends_with('.') && ::read(child->socket.get(), &byte, 1) == 1;) said += byte;
  child->socket.reset();
  int status = 0;
  EXPECT_EQ(::waitpid(child->pid, &status, 0), child->pid);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 5) << status;
  return said;
}

class CarriedProgramTest : public ::testing::Test {
 protected:
  CarriedProgramTest() {
    auto program = base::read_file(MUSTER_TEST_PROGRAMS "/carried", kMostBytes);
    EXPECT_TRUE(program.ok()) << program.status();
    if (program.ok()) program_ = *std::move(program);
    // Whoever started this test may have left it descriptors that its children would get.
    for (int fd = STDERR_FILENO + 1; fd < 64; ++fd) ::fcntl(fd, F_SETFD, FD_CLOEXEC);
  }

  std::string program_;
};

TEST_F(CarriedProgramTest, HasWhatItIsGivenAndNothingElse) {
  const auto before = base::entries_of("/proc/self/fd");
  EXPECT_EQ(said_by(program_, {"A=1", "B=two words"}), "carried\nA=1\nB=two words\n0 1 2 3 .");
  EXPECT_EQ(base::entries_of("/proc/self/fd"), before);
}

std::string compressed(const std::string& bytes) {
  std::string result(::lzma_stream_buffer_bound(bytes.size()), '\0');
  std::size_t size = 0;
  EXPECT_EQ(
      ::lzma_easy_buffer_encode(0, LZMA_CHECK_CRC64, nullptr, reinterpret_cast<const std::uint8_t*>(bytes.data()),
                                bytes.size(), reinterpret_cast<std::uint8_t*>(result.data()), &size, result.size()),
      LZMA_OK);
  result.resize(size);
  return result;
}

TEST_F(CarriedProgramTest, MayBeCompressed) {
  EXPECT_EQ(said_by(compressed(program_)), "carried\n0 1 2 3 .");
}

TEST_F(CarriedProgramTest, NamesDamageInCompressedBytes) {
  std::string bytes = compressed(program_);
  const std::string half = bytes.substr(0, bytes.size() / 2);
  EXPECT_EQ(said_by(half), "start carried from memory: its compressed bytes are damaged");
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 0x55);
  EXPECT_EQ(said_by(bytes), "start carried from memory: its compressed bytes are damaged");
}

// As in an agent that has just begun: the next descriptor, of the file or of the socket, is the number of the child's
// socket.
TEST_F(CarriedProgramTest, ItsDescriptorMayBeFreeHere) {
  constexpr int kFirst = 3;
  const base::UniqueFd kept(::fcntl(kFirst, F_DUPFD_CLOEXEC, 64));  // invalid: it is free already
  ::close(kFirst);
  EXPECT_EQ(said_by(program_), "carried\n0 1 2 3 .");
  {
    const base::UniqueFd taken(::open("/dev/null", O_RDONLY | O_CLOEXEC));  // as the first one
    EXPECT_EQ(said_by(program_), "carried\n0 1 2 3 .");
  }
  if (kept.valid()) ::dup2(kept.get(), kFirst);
}

TEST_F(CarriedProgramTest, WhatIsNoProgramIsAnError) {
  const auto before = base::entries_of("/proc/self/fd");
  EXPECT_EQ(said_by("no program"), "start carried from memory: execute it: Exec format error");
  EXPECT_EQ(base::entries_of("/proc/self/fd"), before);
}

}  // namespace
}  // namespace muster::agent::carried_program_test
