// Input of a rank on its way into a pipe or a terminal, by the real kernel objects.
#include "agent/io/rank_input.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "proto/input_window.h"

namespace muster::agent::rank_input_test {
namespace {

using namespace std::chrono_literals;

class RankInputTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ::signal(SIGPIPE, SIG_IGN);
    auto pipe = base::make_pipe();
    ASSERT_TRUE(pipe.ok() && base::set_nonblocking(pipe->second.get(), true).ok());
    ASSERT_GT(::fcntl(pipe->first.get(), F_SETPIPE_SZ, 4096), 0);
    reader = std::move(pipe->first);
    input = std::make_unique<RankInput>(loop, std::move(pipe->second), RankInput::Kind::kPipe, on_taken());
  }

  RankInput::OnTaken on_taken() {
    return [this](std::size_t bytes, bool closed) {
      taken += bytes;
      is_closed = is_closed || closed;
      loop.stop();
    };
  }

  std::string read(std::size_t most) {
    std::string bytes(most, 0);
    const ssize_t n = ::read(reader.get(), bytes.data(), most);
    bytes.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
    return bytes;
  }

  // Until on_taken; a watchdog ends a test that hangs.
  void run() {
    const base::Timer watchdog = loop.after(20s, [this] {
      ADD_FAILURE() << "nothing was taken";
      loop.stop();
    });
    loop.run();
  }

  base::Loop loop;
  base::UniqueFd reader;
  std::unique_ptr<RankInput> input;
  std::size_t taken = 0;
  bool is_closed = false;
};

TEST_F(RankInputTest, WhatTheRankDoesNotReadYetWaitsAndIsNotCalledTaken) {
  std::string sent(20'000, 'a');
  for (std::size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<char>('a' + i % 26);
  input->push(sent);
  input->end();
  EXPECT_EQ(taken, 4096U);
  std::string got;
  while (got.size() < sent.size()) {
    got += read(4096);
    if (taken < sent.size()) run();
  }
  EXPECT_EQ(got, sent);
  EXPECT_EQ(taken, sent.size());
  EXPECT_EQ(read(1), "") << "the pipe is at its end";
  EXPECT_FALSE(is_closed);
}

TEST_F(RankInputTest, TheEndComesAtOnceWhenNothingWaits) {
  input->push("last");
  input->end();
  input->push("too late");
  EXPECT_EQ(read(100), "last");
  EXPECT_EQ(read(100), "");
  EXPECT_EQ(taken, 4U);
}

TEST_F(RankInputTest, ARankThatClosesItsStdinIsNoticedWithoutAWrite) {
  reader.reset();
  run();
  EXPECT_TRUE(is_closed);
  input->push("to nobody");
  EXPECT_EQ(taken, 0U);
}

TEST_F(RankInputTest, AReaderThatGoesWhileMuchWaits) {
  input->push(std::string(30'000, 'x'));
  const std::size_t before = taken;
  reader.reset();
  run();
  EXPECT_TRUE(is_closed);
  EXPECT_EQ(taken, before);
}

TEST_F(RankInputTest, MoreThanTheWindowIsRefused) {
  input->push(std::string(proto::kInputWindow, 'x'));
  EXPECT_FALSE(is_closed);
  input->push(std::string(4097, 'x'));
  EXPECT_TRUE(is_closed);
}

TEST_F(RankInputTest, DestroyedItClosesThePipe) {
  input->push("x");
  input.reset();
  EXPECT_EQ(read(100), "x");
  EXPECT_EQ(read(100), "");
}

class RankInputTerminalTest : public RankInputTest {
 protected:
  void SetUp() override {
    base::UniqueFd master(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK));
    ASSERT_TRUE(master.valid());
    ASSERT_EQ(::unlockpt(master.get()), 0);
    reader.reset(::ioctl(master.get(), TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC));
    ASSERT_TRUE(reader.valid());
    input = std::make_unique<RankInput>(loop, std::move(master), RankInput::Kind::kTerminal, on_taken());
  }
};

TEST_F(RankInputTerminalTest, TheEndIsTypedOnceAfterALineAndTwiceWithinOne) {
  input->push("one\n");
  input->end();
  EXPECT_EQ(read(100), "one\n");
  EXPECT_EQ(read(100), "");
  EXPECT_EQ(taken, 4U) << "the typed character is not the launcher's";
}

TEST_F(RankInputTerminalTest, TheEndWithinALine) {
  input->push("half");
  input->end();
  EXPECT_EQ(read(100), "half");
  EXPECT_EQ(read(100), "");
}

TEST_F(RankInputTerminalTest, TheEndIsTypedAgainForAProgramThatReadsKeys) {
  input->end();
  // The kernel carries typed characters over in its own time: one that is still under way would outlive the flush
  // below.
  pollfd arrived{.fd = reader.get(), .events = POLLIN, .revents = 0};
  ASSERT_EQ(::poll(&arrived, 1, 10'000), 1);
  termios modes{};
  ASSERT_EQ(::tcgetattr(reader.get(), &modes), 0);
  ::cfmakeraw(&modes);
  ASSERT_EQ(::tcsetattr(reader.get(), TCSAFLUSH, &modes), 0);  // what was typed before is gone
  const base::Timer typed = loop.on_readable(reader.get(), [this] { loop.stop(); });
  run();
  EXPECT_EQ(read(100), "\4");
}

TEST_F(RankInputTerminalTest, ItsSizeCanBeChanged) {
  input->resize(33, 77);
  winsize size{};
  ASSERT_EQ(::ioctl(reader.get(), TIOCGWINSZ, &size), 0);
  EXPECT_EQ(size.ws_row, 33);
  EXPECT_EQ(size.ws_col, 77);
}

}  // namespace
}  // namespace muster::agent::rank_input_test
