// hvdrun's stdin as pipes, files and terminals; who is in the foreground is for tests/e2e/test_15_input.py.
#include "cli/view/stdin_reader.h"

#include <fcntl.h>
#include <pty.h>
#include <sys/socket.h>
#include <termios.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include <gtest/gtest.h>

#include "proto/input_window.h"

namespace muster::cli::stdin_reader_test {
namespace {

using model::InputTo;
using namespace std::chrono_literals;

// A feed of rank 0 that keeps what it gets, and ends the loop after `enough` bytes or at the end.
class StdinReaderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto made = base::make_pipe();
    ASSERT_TRUE(made.ok());
    pipe = std::move(*made);
  }

  std::unique_ptr<launcherd::InputFeed> feed_from(StdinReader& reader) {
    auto feed = std::make_unique<launcherd::InputFeed>(
        std::vector<int>{0}, &reader, [this](const std::vector<int>&, std::string_view bytes, bool ends) {
          got.append(bytes);
          has_ended = has_ended || ends;
          if (ends || got.size() >= enough) loop.stop();
        });
    feed->started(0);
    return feed;
  }
  void put(std::string_view text) {
    ASSERT_TRUE(base::write_all_blocking(pipe.second.get(), text.data(), text.size()).ok());
  }
  void run() {
    const base::Timer watchdog = loop.after(20s, [this] {
      ADD_FAILURE() << "nothing was read";
      loop.stop();
    });
    loop.run();
  }
  // One turn of the loop with all that is due.
  void run_what_is_due() {
    const base::Timer end = loop.after(50ms, [this] { loop.stop(); });
    loop.run();
  }

  base::Loop loop;
  base::FdPair pipe;
  std::string got;
  bool has_ended = false;
  std::size_t enough = std::string::npos;
};

TEST_F(StdinReaderTest, AutoIsRank0ForAPipeAndNobodyForAFile) {
  const base::UniqueFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const base::UniqueFd file(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  auto sockets = base::make_socketpair(SOCK_STREAM);
  ASSERT_TRUE(sockets.ok());
  EXPECT_EQ(settle_input({}, pipe.first.get()), (model::JobInput{InputTo::kRank, 0}));
  EXPECT_EQ(settle_input({}, sockets->first.get()), (model::JobInput{InputTo::kRank, 0}));
  EXPECT_EQ(settle_input({}, null.get()), model::JobInput{InputTo::kNone});
  EXPECT_EQ(settle_input({}, file.get()), model::JobInput{InputTo::kNone});
  EXPECT_EQ(settle_input({InputTo::kAuto, 0, true}, null.get()), (model::JobInput{InputTo::kNone, 0, true}));
  EXPECT_EQ(settle_input({InputTo::kRank, 3}, null.get()), (model::JobInput{InputTo::kRank, 3}));
}

TEST_F(StdinReaderTest, APipeIsReadToItsEnd) {
  StdinReader reader(loop, pipe.first.get(), {.reads = true});
  const auto feed = feed_from(reader);
  put("one\n");
  enough = 4;
  run();
  EXPECT_EQ(got, "one\n");
  put("two");
  pipe.second.reset();
  enough = std::string::npos;
  run();
  EXPECT_EQ(got, "one\ntwo");
  EXPECT_TRUE(has_ended);
  EXPECT_EQ(::fcntl(pipe.first.get(), F_GETFL) & O_NONBLOCK, 0) << "the shell would see that flag";
}

TEST_F(StdinReaderTest, NoMoreIsReadThanTheRankTakes) {
  ASSERT_GE(::fcntl(pipe.second.get(), F_SETPIPE_SZ, 1 << 18), 1 << 18);
  put(std::string(2 * proto::kInputWindow, 'x'));
  StdinReader reader(loop, pipe.first.get(), {.reads = true});
  const auto feed = feed_from(reader);
  run_what_is_due();
  EXPECT_EQ(got.size(), proto::kInputWindow);
  feed->taken(0, 100, false);
  run_what_is_due();
  EXPECT_EQ(got.size(), proto::kInputWindow + 100);
  feed->rank_over(0);
  run_what_is_due();
  EXPECT_EQ(got.size(), proto::kInputWindow + 100);
}

TEST_F(StdinReaderTest, TheNextRunGoesOnWhereTheLastStopped) {
  StdinReader reader(loop, pipe.first.get(), {.reads = true});
  auto feed = feed_from(reader);
  put("first");
  enough = 5;
  run();
  feed.reset();
  put("second");
  run_what_is_due();
  EXPECT_EQ(got, "first") << "nobody runs";
  feed = feed_from(reader);
  enough = 11;
  run();
  EXPECT_EQ(got, "firstsecond");
  pipe.second.reset();
  run();
  EXPECT_TRUE(has_ended);
  has_ended = false;
  feed = feed_from(reader);
  EXPECT_TRUE(has_ended) << "the end stays the end";
}

TEST_F(StdinReaderTest, AFileIsReadWhenItIsNamed) {
  std::string name = ::testing::TempDir() + "stdin.XXXXXX";
  const base::UniqueFd file(::mkstemp(name.data()));
  ASSERT_EQ(::unlink(name.c_str()), 0);
  ASSERT_EQ(::write(file.get(), "in the file", 11), 11);
  ASSERT_EQ(::lseek(file.get(), 3, SEEK_SET), 3);
  StdinReader reader(loop, file.get(), {.reads = true});
  const auto feed = feed_from(reader);
  run();
  EXPECT_EQ(got, "the file");
  EXPECT_TRUE(has_ended);
}

TEST_F(StdinReaderTest, WhatCannotBeReadHasEnded) {
  const base::UniqueFd for_writing(::open("/dev/null", O_WRONLY | O_CLOEXEC));  // as nohup leaves it
  StdinReader reader(loop, for_writing.get(), {.reads = true});
  const auto feed = feed_from(reader);
  run();
  EXPECT_TRUE(has_ended);
}

TEST_F(StdinReaderTest, WhoReadsNothingEndsAtOnce) {
  put("for the next program");
  StdinReader reader(loop, pipe.first.get(), {.reads = false});
  const auto feed = feed_from(reader);
  EXPECT_TRUE(has_ended);
  run_what_is_due();
  EXPECT_EQ(got, "");
}

TEST_F(StdinReaderTest, ASocketIsReadAsAPipeIs) {
  auto sockets = base::make_socketpair(SOCK_STREAM);
  ASSERT_TRUE(sockets.ok());
  StdinReader reader(loop, sockets->first.get(), {.reads = true});
  const auto feed = feed_from(reader);
  ASSERT_EQ(::write(sockets->second.get(), "x", 1), 1);
  sockets->second.reset();
  run();
  EXPECT_EQ(got, "x");
}

// A terminal, and the program at its other end.
class StdinTerminalTest : public StdinReaderTest {
 protected:
  void SetUp() override {
    int master_fd = -1;
    int line_fd = -1;
    ASSERT_EQ(::openpty(&master_fd, &line_fd, nullptr, nullptr, nullptr), 0);
    master.reset(master_fd);
    line.reset(line_fd);
  }
  bool is_raw() const {
    termios modes{};
    EXPECT_EQ(::tcgetattr(line.get(), &modes), 0);
    return (modes.c_lflag & static_cast<tcflag_t>(ICANON | ISIG | ECHO)) == 0;
  }
  base::UniqueFd master;
  base::UniqueFd line;
};

TEST_F(StdinTerminalTest, IsRawWhileTheRankReadsAndNoLonger) {
  std::vector<bool> told;
  StdinReader reader(loop, line.get(),
                     {.reads = true, .wants_raw = true, .on_raw = [&](bool raw) { told.push_back(raw); }});
  EXPECT_FALSE(is_raw());
  auto feed = feed_from(reader);
  EXPECT_TRUE(is_raw());
  ASSERT_EQ(::write(master.get(), "\3\32", 2), 2);
  enough = 2;
  run();
  EXPECT_EQ(got, "\3\32") << "keys are bytes";
  reader.pause();
  EXPECT_FALSE(is_raw());
  reader.resume();
  EXPECT_TRUE(is_raw());
  feed->rank_over(0);
  EXPECT_FALSE(is_raw());
  EXPECT_EQ(told, (std::vector<bool>{true, false, true, false}));
}

TEST_F(StdinTerminalTest, IsRawBeforeARankCanShowAnything) {
  StdinReader reader(loop, line.get(), {.reads = true, .wants_raw = true});
  {
    launcherd::InputFeed feed({0}, &reader, [](const std::vector<int>&, std::string_view, bool) {});
    EXPECT_TRUE(is_raw());
  }
  EXPECT_FALSE(is_raw()) << "it did not start";
}

TEST_F(StdinTerminalTest, WithoutRawLinesComeAsTypedAndCtrlDEnds) {
  StdinReader reader(loop, line.get(), {.reads = true});
  const auto feed = feed_from(reader);
  EXPECT_FALSE(is_raw());
  ASSERT_EQ(::write(master.get(), "line\n\4", 6), 6);
  run();
  EXPECT_EQ(got, "line\n");
  EXPECT_TRUE(has_ended);
}

TEST_F(StdinTerminalTest, IsRestoredByDestruction) {
  std::unique_ptr<launcherd::InputFeed> feed;
  {
    StdinReader reader(loop, line.get(), {.reads = true, .wants_raw = true});
    feed = feed_from(reader);
    EXPECT_TRUE(is_raw());
    feed.reset();
    RawTerminal raw(line.get());
    EXPECT_TRUE(raw.enter());
    EXPECT_TRUE(is_raw());
  }
  EXPECT_FALSE(is_raw());
}

TEST_F(StdinReaderTest, APipeIsNeverMadeRaw) {
  RawTerminal raw(pipe.first.get());
  EXPECT_FALSE(raw.enter());
}

}  // namespace
}  // namespace muster::cli::stdin_reader_test
