#include "agent/unpack/input.h"

#include <gtest/gtest.h>

#include "base/unique_fd.h"

namespace muster::agent::input_test {
namespace {

constexpr std::chrono::seconds kLong{30};

base::FdPair pipe_with(std::string_view text) {
  base::FdPair pipe = *base::make_pipe();
  EXPECT_TRUE(base::write_all_blocking(pipe.second.get(), text.data(), text.size()).ok());
  return pipe;
}

TEST(Input, ReadsALineAndLeavesTheBytesBehindIt) {
  base::FdPair pipe = pipe_with("unpack 1 2\nabcdef");
  Input input(pipe.first.get(), kLong);
  std::string line;
  EXPECT_EQ(input.read_line(line, 100), "");
  EXPECT_EQ(line, "unpack 1 2");
  std::string_view bytes;
  EXPECT_EQ(input.read_some(bytes, 4), "");
  EXPECT_EQ(bytes, "abcd");
  EXPECT_EQ(input.read_some(bytes, 4), "");
  EXPECT_EQ(bytes, "ef");
  pipe.second.reset();
  EXPECT_EQ(input.read_some(bytes, 4), "the sender has gone");
}

TEST(Input, RefusesALongLine) {
  const base::FdPair pipe = pipe_with("unpack 1 2\n");
  Input input(pipe.first.get(), kLong);
  std::string line;
  EXPECT_EQ(input.read_line(line, 9), "a line is longer than 9 bytes");
}

TEST(Input, GivesUpOnASilentSender) {
  const base::FdPair pipe = pipe_with("unp");
  Input input(pipe.first.get(), std::chrono::milliseconds(1));
  std::string line;
  EXPECT_EQ(input.read_line(line, 100), "nothing arrived for 1 ms");
}

}  // namespace
}  // namespace muster::agent::input_test
