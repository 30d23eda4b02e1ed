#include "base/unique_fd.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <thread>

#include <gtest/gtest.h>

namespace muster::base::unique_fd_test {
namespace {

bool is_open(int fd) {
  return ::fcntl(fd, F_GETFD) >= 0;
}

TEST(UniqueFd, ClosesOnceAtItsEnd) {
  int raw = -1;
  {
    const UniqueFd fd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    raw = fd.get();
    EXPECT_TRUE(fd.valid());
    EXPECT_TRUE(is_open(raw));
  }
  EXPECT_FALSE(is_open(raw));
  EXPECT_FALSE(UniqueFd().valid());
}

TEST(UniqueFd, MovesOwnership) {
  UniqueFd first(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const int raw = first.get();
  UniqueFd second(std::move(first));
  EXPECT_EQ(second.get(), raw);
  UniqueFd third(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const int replaced = third.get();
  third = std::move(second);
  EXPECT_EQ(third.get(), raw);
  EXPECT_FALSE(is_open(replaced));
  const int released = third.release();
  EXPECT_TRUE(is_open(released));
  UniqueFd owner(released);
  owner.reset(released);  // the same number: nothing is closed
  EXPECT_TRUE(is_open(released));
}

TEST(MakePipe, IsCloseOnExecAndCarriesBytes) {
  const FdPair pipe = make_pipe().value();
  EXPECT_NE(::fcntl(pipe.first.get(), F_GETFD) & FD_CLOEXEC, 0);
  EXPECT_NE(::fcntl(pipe.second.get(), F_GETFD) & FD_CLOEXEC, 0);
  ASSERT_TRUE(write_all_blocking(pipe.second.get(), "abc", 3).ok());
  char buffer[3];
  EXPECT_TRUE(read_exactly_blocking(pipe.first.get(), buffer, 3).value());
  EXPECT_EQ(std::string(buffer, 3), "abc");
}

TEST(SetNonblocking, TurnsOnAndOff) {
  const FdPair pair = make_socketpair(SOCK_STREAM).value();
  ASSERT_TRUE(set_nonblocking(pair.first.get(), true).ok());
  EXPECT_NE(::fcntl(pair.first.get(), F_GETFL) & O_NONBLOCK, 0);
  ASSERT_TRUE(set_nonblocking(pair.first.get(), false).ok());
  EXPECT_EQ(::fcntl(pair.first.get(), F_GETFL) & O_NONBLOCK, 0);
  EXPECT_FALSE(set_nonblocking(-1, true).ok());
}

TEST(ReadExactly, TellsCleanEndFromCutOff) {
  FdPair pair = make_socketpair(SOCK_STREAM).value();
  char buffer[4];
  ASSERT_TRUE(write_all_blocking(pair.first.get(), "ab", 2).ok());
  pair.first.reset();
  EXPECT_EQ(read_exactly_blocking(pair.second.get(), buffer, 4).status().code(), Code::kDataLoss);
  const auto end = read_exactly_blocking(pair.second.get(), buffer, 4);
  ASSERT_TRUE(end.ok());
  EXPECT_FALSE(*end);
}

TEST(WriteAll, LoopsOverShortWrites) {
  FdPair pair = make_socketpair(SOCK_STREAM).value();
  const std::string sent(4u << 20, 'x');  // more than the socket buffers hold
  std::thread writer([&] { EXPECT_TRUE(write_all_blocking(pair.first.get(), sent.data(), sent.size()).ok()); });
  std::string got(sent.size(), '\0');
  EXPECT_TRUE(read_exactly_blocking(pair.second.get(), got.data(), got.size()).value());
  writer.join();
  EXPECT_TRUE(got == sent);
}

}  // namespace
}  // namespace muster::base::unique_fd_test
