#include "agent/evidence/limited_stream.h"

#include <sys/socket.h>
#include <unistd.h>

#include <string>

#include <gtest/gtest.h>

#include "base/net.h"

namespace muster::agent::limited_stream_test {
namespace {

using namespace std::chrono_literals;

StreamLimits limits(std::chrono::milliseconds patience = 20s, std::size_t bytes = 1000) {
  return {.deadline = std::chrono::steady_clock::now() + patience, .bytes = bytes};
}

class LimitedStreamTest : public ::testing::Test {
 protected:
  void SetUp() override {
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    ours_.reset(ends[0]);
    theirs_.reset(ends[1]);
  }
  void they_send(std::string_view bytes) {
    ASSERT_EQ(::send(theirs_.get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  }
  LimitedStream stream(const StreamLimits& limits) { return LimitedStream::adopt(std::move(ours_), limits).value(); }

  base::UniqueFd ours_;
  base::UniqueFd theirs_;
};

TEST_F(LimitedStreamTest, ReadsLinesBytesAndTheRest) {
  they_send("one\r\n\ntwo\n12345rest");
  theirs_.reset();
  LimitedStream from = stream(limits());
  EXPECT_EQ(from.read_line().value(), "one");
  EXPECT_EQ(from.read_line().value(), "");
  EXPECT_EQ(from.read_line().value(), "two");
  EXPECT_EQ(from.read_exactly(5).value(), "12345");
  EXPECT_EQ(from.read_to_end().value(), "rest");
  EXPECT_EQ(from.read_to_end().value(), "");
  EXPECT_EQ(from.read_line().status().code(), base::Code::kUnavailable);
  EXPECT_EQ(from.read_exactly(1).status().code(), base::Code::kUnavailable);
}

TEST_F(LimitedStreamTest, SendsAll) {
  LimitedStream to = stream(limits());
  ASSERT_TRUE(to.send("hello").ok());
  char bytes[8];
  EXPECT_EQ(::recv(theirs_.get(), bytes, sizeof bytes, 0), 5);
}

TEST_F(LimitedStreamTest, GivesUpAtTheDeadline) {
  they_send("half a line");
  LimitedStream from = stream(limits(20ms));
  EXPECT_EQ(from.read_line().status().code(), base::Code::kDeadlineExceeded);
  LimitedStream full = LimitedStream::adopt(std::move(theirs_), limits(20ms)).value();
  EXPECT_EQ(full.send(std::string(8 << 20, 'x')).code(), base::Code::kDeadlineExceeded);
}

TEST_F(LimitedStreamTest, TakesOnlySoManyBytes) {
  they_send(std::string(101, 'x'));
  LimitedStream from = stream(limits(20s, 100));
  EXPECT_EQ(from.read_exactly(101).status().code(), base::Code::kResourceExhausted);
  EXPECT_EQ(from.read_to_end().status().code(), base::Code::kResourceExhausted);
}

TEST(LimitedStream, ConnectsOrSaysWhyNot) {
  const base::IpAddress here = base::IpAddress::parse("127.0.0.1").value();
  base::UniqueFd listening = base::listen_on(here, 0, 1).value();
  const std::uint16_t port = base::local_port(listening.get()).value();
  const base::SockAddr address = base::make_sockaddr(here, port);
  EXPECT_TRUE(LimitedStream::connect(address.get(), address.size, limits()).ok());
  listening.reset();
  EXPECT_EQ(LimitedStream::connect(address.get(), address.size, limits()).status().code(), base::Code::kUnavailable);
}

}  // namespace
}  // namespace muster::agent::limited_stream_test
