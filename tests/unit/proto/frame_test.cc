#include "proto/frame.h"

#include <sys/socket.h>

#include <gtest/gtest.h>

#include "base/unique_fd.h"
#include "proto/muster/v1/agent.pb.h"

namespace muster::proto::frame_test {
namespace {

v1::AgentJoin join() {
  v1::AgentJoin join;
  join.set_job_id("abcdefgh");
  join.set_token(std::string(1000, 'k'));
  return join;
}

TEST(Frame, LengthThenMessage) {
  const std::string frame = *frame_message(join());
  ASSERT_GT(frame.size(), 4u);
  const auto byte = [&](std::size_t i) { return static_cast<std::uint32_t>(static_cast<unsigned char>(frame[i])); };
  EXPECT_EQ(byte(0) | byte(1) << 8 | byte(2) << 16 | byte(3) << 24, frame.size() - 4);
  EXPECT_EQ(*frame_message(v1::AgentJoin()), std::string(4, '\0'));
}

TEST(Frame, WhatIsTooLongIsAnError) {
  v1::AgentJoin long_join;
  long_join.set_token(std::string(kMaxMessageBytes - 8, 'a'));
  EXPECT_TRUE(frame_message(long_join).ok());
  long_join.set_token(std::string(2 * kMaxMessageBytes, 'a'));
  const auto frame = frame_message(long_join);
  EXPECT_EQ(frame.status().code(), base::Code::kResourceExhausted);
  EXPECT_EQ(frame.status().message(), "a message of 2097157 bytes is longer than the limit of 1048576");
}

TEST(Frame, ReaderCutsWhateverComes) {
  const std::string frame = *frame_message(join());
  FrameReader reader;
  for (const char byte : frame + frame) {
    reader.feed({&byte, 1});
  }
  for (int i = 0; i < 2; ++i) {
    const auto body = reader.next();
    ASSERT_TRUE(body.ok() && *body);
    EXPECT_EQ(**body, frame.substr(4));
  }
  EXPECT_FALSE(*reader.next());
  reader.feed(frame.substr(0, frame.size() - 1));
  EXPECT_FALSE(*reader.next());
}

TEST(Frame, ALengthThatCannotBeIsAnError) {
  FrameReader reader;
  reader.feed("\xff\xff\xff\x7f");
  EXPECT_EQ(reader.next().status().code(), base::Code::kInvalidArgument);
}

class FrameOnSocket : public ::testing::Test {
 protected:
  void write(std::string_view bytes) {
    auto pair = base::make_socketpair(SOCK_STREAM);
    ASSERT_TRUE(pair.ok());
    ASSERT_TRUE(base::write_all_blocking(pair->first.get(), bytes.data(), bytes.size()).ok());
    end_ = std::move(pair->second);
  }

  base::UniqueFd end_;
};

TEST_F(FrameOnSocket, ReadsOneAndThenTheEnd) {
  write(*frame_message(join()));
  v1::AgentJoin read;
  const auto got = read_message_blocking(end_.get(), read);
  ASSERT_TRUE(got.ok() && *got);
  EXPECT_EQ(read.token(), join().token());
  const auto end = read_message_blocking(end_.get(), read);
  ASSERT_TRUE(end.ok());
  EXPECT_FALSE(*end);
}

TEST_F(FrameOnSocket, JunkAndCutMessagesAreErrors) {
  v1::AgentJoin read;
  write("Welcome to n1");
  EXPECT_FALSE(read_message_blocking(end_.get(), read).ok());
  write(std::string("\x04\0\0\0\xff\xff\xff\xff", 8));
  EXPECT_FALSE(read_message_blocking(end_.get(), read).ok());
  write(frame_message(join())->substr(0, 20));
  EXPECT_FALSE(read_message_blocking(end_.get(), read).ok());
}

}  // namespace
}  // namespace muster::proto::frame_test
