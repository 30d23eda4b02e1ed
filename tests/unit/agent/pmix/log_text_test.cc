#include "agent/pmix/log_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::agent::pmix::log_text_test {
namespace {

using namespace std::string_literals;

std::string packed_int(unsigned value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift & 0xff);
  return bytes;
}

std::string packed_string(const std::string& text) {
  return packed_int(1) + packed_int(static_cast<unsigned>(text.size() + 1)) + text + '\0';
}

std::string packed_help(const std::string& text) {
  return packed_string("help-mpi-runtime.txt") + packed_string("mpi_init:startup:internal-failure") + packed_int(1) +
         '\1' + packed_string(text);
}

TEST(LogText, IsTheLastStringOfAHelpText) {
  EXPECT_EQ(log_text(packed_help("It looks like MPI_INIT failed.\nSorry")), "It looks like MPI_INIT failed.\nSorry\n");
  EXPECT_EQ(log_text(packed_help("ends by itself\n")), "ends by itself\n");
}

TEST(LogText, OfOtherBytesTheLongestRunIsShown) {
  EXPECT_EQ(log_text("\x01\x02short\x03the longer one\x04x"s), "the longer one\n");
  EXPECT_EQ(log_text("plain"), "plain\n");
}

TEST(LogText, ALengthBeyondTheBytesIsNoHelpText) {
  const std::string whole = packed_help("a text that is cut");
  EXPECT_THAT(log_text(whole.substr(0, whole.size() - 3)), ::testing::EndsWith("mpi_init:startup:internal-failure\n"));
  EXPECT_EQ(log_text(packed_int(1) + packed_int(0x01000000) + "abc"), "abc\n");
}

TEST(LogText, NothingPrintableIsNoText) {
  EXPECT_EQ(log_text(""), "");
  EXPECT_EQ(log_text("\x01\x02"s), "");
}

TEST(LogText, CannotSteerATerminal) {
  EXPECT_EQ(printable_text("a\x1b[2Jb\tc\n"), "a[2Jb\tc\n");
  EXPECT_EQ(log_text(packed_help("a\x1b]0;title\x07")), "a]0;title\n");
}

TEST(LogText, IsBounded) {
  EXPECT_EQ(printable_text(std::string(1 << 20, 'x')).size(), (64u << 10) + 1);
}

}  // namespace
}  // namespace muster::agent::pmix::log_text_test
