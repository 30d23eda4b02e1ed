#include "launcherd/output/terminal.h"

#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <termios.h>
#include <unistd.h>

#include <chrono>
#include <future>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tests/unit/support/few_descriptors.h"

namespace muster::launcherd::terminal_test {
namespace {

base::MonotonicTime in_seconds(int seconds) {
  return std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
}

// Reads a pty's master up to `end`. The kernel moves the bytes in its own thread, so one read may return only a part of
// an earlier write.
std::string read_until(int master, std::string_view end) {
  std::string found;
  char byte = 0;
  pollfd readable{master, POLLIN, 0};
  while (!found.ends_with(end) && poll(&readable, 1, 10'000) == 1 && read(master, &byte, 1) == 1) found.push_back(byte);
  return found;
}

class TerminalTest : public ::testing::Test {
 protected:
  void SetUp() override {
    signal(SIGPIPE, SIG_IGN);
    auto pair = base::make_pipe();
    ASSERT_TRUE(pair.ok());
    pipe_ = std::move(*pair);
  }
  // Returns the bytes that the pipe holds now.
  std::string text() {
    std::string found(1 << 16, '\0');
    pollfd readable{pipe_.first.get(), POLLIN, 0};
    if (poll(&readable, 1, 0) != 1) return "";
    const ssize_t got = read(pipe_.first.get(), found.data(), found.size());
    found.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    return found;
  }
  base::FdPair pipe_;
};

TEST_F(TerminalTest, ANoticeNeverLandsInsideALine) {
  Terminal terminal(pipe_.second.get(), "stdout");
  EXPECT_TRUE(terminal.write_output("[0]<stdout>:name: ", Join::kFresh, "").ok());
  EXPECT_TRUE(terminal.write_notice("hvdrun: note\n").ok());
  EXPECT_TRUE(terminal.write_output("bob\n", Join::kContinues, "[0]<stdout>:").ok());
  EXPECT_EQ(text(), "[0]<stdout>:name: \nhvdrun: note\n[0]<stdout>:bob\n");
}

TEST_F(TerminalTest, WithoutANoticeTheLineJustGoesOn) {
  Terminal terminal(pipe_.second.get(), "stdout");
  EXPECT_TRUE(terminal.write_output("[0]<stdout>:name: ", Join::kFresh, "").ok());
  EXPECT_TRUE(terminal.write_output("bob\n", Join::kContinues, "[0]<stdout>:").ok());
  EXPECT_TRUE(terminal.write_notice("hvdrun: note\n").ok());
  EXPECT_EQ(text(), "[0]<stdout>:name: bob\nhvdrun: note\n");
}

TEST_F(TerminalTest, ALineThatANoticeClosedIsNotClosedTwice) {
  Terminal terminal(pipe_.second.get(), "stdout");
  EXPECT_TRUE(terminal.write_output("[0]<stdout>:open", Join::kFresh, "").ok());
  EXPECT_TRUE(terminal.write_notice("hvdrun: note\n").ok());
  EXPECT_TRUE(terminal.write_output("\n[1]<stdout>:x\n", Join::kCloses, "[0]<stdout>:").ok());
  EXPECT_EQ(text(), "[0]<stdout>:open\nhvdrun: note\n[1]<stdout>:x\n");
}

TEST_F(TerminalTest, BytesOfATerminalPassUnchangedAndLinesBeginAnew) {
  Terminal terminal(pipe_.second.get(), "stdout");
  EXPECT_TRUE(terminal.write_output("[1]<stdout>:open", Join::kFresh, "").ok());
  EXPECT_TRUE(terminal.write_bytes("\x1b[2J>>> ").ok());
  EXPECT_TRUE(terminal.write_output("[1]<stdout>:line\n", Join::kFresh, "").ok());
  EXPECT_TRUE(terminal.write_bytes("done\r\n").ok());
  EXPECT_TRUE(terminal.write_output("[1]<stdout>:next\n", Join::kFresh, "").ok());
  EXPECT_TRUE(terminal.write_bytes("x").ok());
  EXPECT_TRUE(terminal.write_notice("hvdrun: note\n").ok());
  EXPECT_EQ(text(), "[1]<stdout>:open\x1b[2J>>> \n[1]<stdout>:line\ndone\r\n[1]<stdout>:next\nx\nhvdrun: note\n");
}

TEST_F(TerminalTest, ALineOpenBeforeTheBytesGetsItsLabelAgain) {
  Terminal terminal(pipe_.second.get(), "stdout");
  EXPECT_TRUE(terminal.write_output("[1]<stdout>:a", Join::kFresh, "").ok());
  EXPECT_TRUE(terminal.write_bytes("b").ok());
  EXPECT_TRUE(terminal.write_output("c\n", Join::kContinues, "[1]<stdout>:").ok());
  EXPECT_EQ(text(), "[1]<stdout>:ab\n[1]<stdout>:c\n");
}

TEST(TerminalRaw, LinesEndWithACarriageReturnAndBytesStay) {
  int master = -1;
  int line = -1;
  ASSERT_EQ(openpty(&master, &line, nullptr, nullptr, nullptr), 0);
  const base::UniqueFd keep_master(master);
  const base::UniqueFd keep_line(line);
  termios modes{};
  ASSERT_EQ(tcgetattr(line, &modes), 0);
  cfmakeraw(&modes);
  ASSERT_EQ(tcsetattr(line, TCSANOW, &modes), 0);
  Terminal terminal(line, "stdout");
  terminal.set_raw(true);
  EXPECT_TRUE(terminal.write_output("[1]<stdout>:one\n[1]<stdout>:two\r\n", Join::kFresh, "").ok());
  EXPECT_TRUE(terminal.write_bytes("a\nb").ok());
  EXPECT_TRUE(terminal.write_notice("hvdrun: note\n").ok());
  terminal.set_raw(false);
  EXPECT_TRUE(terminal.write_notice("hvdrun: over\n").ok());
  EXPECT_EQ(read_until(master, "over\n"),
            "[1]<stdout>:one\r\n[1]<stdout>:two\r\na\nb\r\nhvdrun: note\r\nhvdrun: over\n");
}

TEST_F(TerminalTest, AReaderThatIsGoneIsReportedOnce) {
  Terminal terminal(pipe_.second.get(), "stdout");
  pipe_.first.reset();
  const base::Status status = terminal.write_output("x\n", Join::kFresh, "");
  EXPECT_EQ(status.code(), base::Code::kCancelled);
  EXPECT_NE(status.message().find("stdout"), std::string::npos);
  EXPECT_TRUE(terminal.write_output("x\n", Join::kFresh, "").ok());
  EXPECT_TRUE(terminal.write_notice("x\n").ok());
}

TEST_F(TerminalTest, AReaderThatWasGoneBeforeIsReportedToo) {
  pipe_.first.reset();
  Terminal terminal(pipe_.second.get(), "stdout");
  EXPECT_EQ(terminal.write_output("x\n", Join::kFresh, "").code(), base::Code::kCancelled);
}

TEST(Terminal, AFullDiskIsResourceExhausted) {
  const base::UniqueFd full(open("/dev/full", O_WRONLY | O_CLOEXEC));
  Terminal terminal(full.get(), "stdout");
  EXPECT_EQ(terminal.write_output("x\n", Join::kFresh, "").code(), base::Code::kResourceExhausted);
}

TEST(Terminal, AClosedDescriptorIsAnError) {
  Terminal terminal(-1, "stderr");
  EXPECT_FALSE(terminal.write_notice("x\n").ok());
  EXPECT_TRUE(terminal.write_notice("x\n").ok());
}

// Writes while no process reads.
void check_cancel_ends_a_write(Terminal& terminal) {
  std::promise<base::Status> done;
  std::thread writer([&] { done.set_value(terminal.write_output(std::string(8 << 20, 'x'), Join::kFresh, "")); });
  std::future<base::Status> status = done.get_future();
  EXPECT_EQ(status.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  terminal.cancel();
  const bool has_ended = status.wait_for(std::chrono::seconds(20)) == std::future_status::ready;
  EXPECT_TRUE(has_ended);
  writer.join();
  if (has_ended) {
    EXPECT_EQ(status.get().code(), base::Code::kCancelled);
  }
}

// cancel() ends a write that no process reads: to a pipe, to a socket, and to a pipe that cannot be opened again.
TEST_F(TerminalTest, CancelEndsABlockedWrite) {
  auto sockets = base::make_socketpair(SOCK_STREAM);
  ASSERT_TRUE(sockets.ok());
  for (const int fd : {pipe_.second.get(), sockets->second.get()}) {
    Terminal terminal(fd, "stdout");
    check_cancel_ends_a_write(terminal);
    // The shared descriptor never became non-blocking.
    EXPECT_EQ(fcntl(fd, F_GETFL) & O_NONBLOCK, 0);
  }
}

TEST_F(TerminalTest, CancelEndsABlockedWriteWithoutADescriptorForIt) {
  testing_support::FewDescriptors none;
  Terminal terminal(pipe_.second.get(), "stdout");
  none.give_back();
  check_cancel_ends_a_write(terminal);
}

TEST_F(TerminalTest, OneTerminalForOneFile) {
  const base::UniqueFd copy(dup(pipe_.second.get()));
  Terminals same(pipe_.second.get(), copy.get());
  EXPECT_EQ(same.out(), same.err());
  auto other = base::make_pipe();
  ASSERT_TRUE(other.ok());
  Terminals different(pipe_.second.get(), other->second.get());
  EXPECT_NE(different.out(), different.err());
}

class TtyTest : public ::testing::Test {
 protected:
  void SetUp() override {
    int master = -1;
    int slave = -1;
    winsize size{.ws_row = 24, .ws_col = 21, .ws_xpixel = 0, .ws_ypixel = 0};
    ASSERT_EQ(openpty(&master, &slave, nullptr, nullptr, &size), 0);
    master_.reset(master);
    slave_.reset(slave);
    termios settings{};
    ASSERT_EQ(tcgetattr(slave, &settings), 0);
    cfmakeraw(&settings);
    ASSERT_EQ(tcsetattr(slave, TCSANOW, &settings), 0);
  }
  std::string read_until(std::string_view end) { return terminal_test::read_until(master_.get(), end); }
  base::UniqueFd master_;
  base::UniqueFd slave_;
};

TEST_F(TtyTest, TheStatusLineIsErasedBeforeAndDrawnAfterEverythingElse) {
  Terminal terminal(slave_.get(), "stderr");
  ASSERT_TRUE(terminal.is_tty());
  EXPECT_TRUE(terminal.set_status("1/4 hosts up").ok());
  EXPECT_EQ(read_until("up"), "1/4 hosts up");
  EXPECT_TRUE(terminal.write_notice("hvdrun: note\n").ok());
  EXPECT_EQ(read_until("up"), "\r\033[Khvdrun: note\n1/4 hosts up");
  EXPECT_TRUE(terminal.write_output("[0]<stdout>:x\n", Join::kFresh, "").ok());
  EXPECT_EQ(read_until("up"), "\r\033[K[0]<stdout>:x\n1/4 hosts up");
  EXPECT_TRUE(terminal.set_status("").ok());
  EXPECT_TRUE(terminal.write_notice("end\n").ok());
  EXPECT_EQ(read_until("end\n"), "\r\033[Kend\n");
}

TEST_F(TtyTest, TheStatusLineStaysOutOfAnOpenLine) {
  Terminal terminal(slave_.get(), "stderr");
  EXPECT_TRUE(terminal.set_status("status").ok());
  EXPECT_TRUE(terminal.write_output("[0]<stdout>:name: ", Join::kFresh, "").ok());
  EXPECT_TRUE(terminal.write_output("bob\n", Join::kContinues, "[0]<stdout>:").ok());
  EXPECT_EQ(read_until("bob\nstatus"), "status\r\033[K[0]<stdout>:name: bob\nstatus");
}

TEST_F(TtyTest, TheStatusLineIsCutToTheWidthInCharacters) {
  Terminal terminal(slave_.get(), "stderr");
  EXPECT_TRUE(terminal.set_status("12/16 up · waiting: n3 and others").ok());
  EXPECT_TRUE(terminal.write_notice("\n").ok());
  EXPECT_EQ(read_until("\n"), "12/16 up · waiting: \r\033[K\n");
}

TEST_F(TtyTest, CancelEndsABlockedWrite) {
  Terminal terminal(slave_.get(), "stdout");
  std::promise<base::Status> done;
  std::thread writer([&] { done.set_value(terminal.write_output(std::string(1 << 20, 'x'), Join::kFresh, "")); });
  std::future<base::Status> status = done.get_future();
  EXPECT_EQ(status.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  terminal.cancel();
  ASSERT_EQ(status.wait_for(std::chrono::seconds(20)), std::future_status::ready);
  EXPECT_EQ(status.get().code(), base::Code::kCancelled);
  writer.join();
}

TEST_F(TerminalTest, NoticesHaveThePrefixOnEachLine) {
  Terminal terminal(pipe_.second.get(), "stderr");
  NoticeWriter notices(&terminal);
  notices.line("one");
  notices.line("two\nthree\n");
  notices.status("never shown: this is no terminal");
  EXPECT_TRUE(notices.flush_blocking(in_seconds(20)));
  EXPECT_EQ(text(), "hvdrun: one\nhvdrun: two\nhvdrun: three\n");
}

TEST_F(TerminalTest, AStuckTerminalNeverBlocksTheCallerAndWhatIsLeftOutIsCounted) {
  Terminal terminal(pipe_.second.get(), "stderr");
  NoticeWriter notices(&terminal, "");
  ASSERT_TRUE(base::set_nonblocking(pipe_.second.get(), true).ok());
  const std::string block(4096, '#');
  while (write(pipe_.second.get(), block.data(), block.size()) > 0) {
  }
  for (int i = 0; i < 1500; ++i) notices.line("line " + std::to_string(i));
  EXPECT_FALSE(notices.flush_blocking(std::chrono::steady_clock::now() + std::chrono::milliseconds(20)));
  std::string all;
  std::thread reader([&] {
    char buffer[4096];
    while (all.find("left out") == std::string::npos) {
      const ssize_t got = read(pipe_.first.get(), buffer, sizeof buffer);
      if (got <= 0) break;
      all.append(buffer, static_cast<std::size_t>(got));
    }
  });
  EXPECT_TRUE(notices.flush_blocking(in_seconds(20)));
  reader.join();
  EXPECT_NE(all.find("line 999\n"), std::string::npos);
  // The writer may hold one line already, and 1,000 lines wait.
  EXPECT_TRUE(all.find("499 more lines were left out") != std::string::npos ||
              all.find("500 more lines were left out") != std::string::npos);
}

TEST_F(TerminalTest, DestructionDoesNotWaitForAStuckTerminal) {
  Terminal terminal(pipe_.second.get(), "stderr");
  {
    NoticeWriter notices(&terminal);
    notices.line(std::string(8 << 20, 'x'));
    EXPECT_FALSE(notices.flush_blocking(std::chrono::steady_clock::now() + std::chrono::milliseconds(20)));
  }
  EXPECT_TRUE(terminal.write_notice("dropped\n").ok());  // the notice that was cut off has reported the error already
}

// Notices and a flood of output go to one pipe at the same time. Every line is whole.
TEST_F(TerminalTest, NoticesAndAFloodOfOutputShareOnePipe) {
  Terminal terminal(pipe_.second.get(), "stdout");
  constexpr int kNotices = 200;
  std::thread output([&] {
    for (int i = 0; i < 2000; ++i) {
      std::string block;
      for (int j = 0; j < 20; ++j) block += "[1]<stdout>:some text of a line\n";
      EXPECT_TRUE(terminal.write_output(block, Join::kFresh, "").ok());
    }
  });
  std::thread notice([&] {
    NoticeWriter notices(&terminal);
    for (int i = 0; i < kNotices; ++i) {
      notices.line("notice");
      EXPECT_TRUE(notices.flush_blocking(in_seconds(60)));
    }
  });
  std::string all;
  std::vector<char> buffer(64 * 1024);
  int lines = 0;
  int found_notices = 0;
  int broken = 0;
  while (lines < 2000 * 20 + kNotices) {
    const ssize_t got = read(pipe_.first.get(), buffer.data(), buffer.size());
    ASSERT_GT(got, 0);
    all.append(buffer.data(), static_cast<std::size_t>(got));
    for (std::size_t end = all.find('\n'); end != std::string::npos; end = all.find('\n')) {
      const std::string line = all.substr(0, end);
      all.erase(0, end + 1);
      ++lines;
      if (line == "hvdrun: notice") {
        ++found_notices;
      } else if (line != "[1]<stdout>:some text of a line") {
        ++broken;
      }
    }
  }
  output.join();
  notice.join();
  EXPECT_EQ(found_notices, kNotices);
  EXPECT_EQ(broken, 0);
}

}  // namespace
}  // namespace muster::launcherd::terminal_test
