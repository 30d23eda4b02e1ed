#include "collectives/transport/record.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "collectives/transport/sealed_link.h"
#include "tests/unit/collectives/transport/test_world.h"

namespace muster::collectives::record_test {
namespace {

using base::Code;
using Bytes = std::vector<std::byte>;

RecordKey key_of(char letter) {
  RecordKey key{};
  key.fill(letter);
  return key;
}

Bytes numbered(std::size_t size) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 7 + size);
  return bytes;
}

Bytes seal(RecordSealer& sealer, std::span<const std::byte> head, std::span<const std::byte> body) {
  Bytes record(kMaxRecordSize);
  record.resize(sealer.seal(head, body, record).value());
  return record;
}

Code code_of_opening(RecordOpener& opener, Bytes record) {
  return opener.open(record).status().code();
}

TEST(RecordTest, KeysAreThoseOfRfc5869) {
  const std::string secret(22, '\x0b');
  std::string salt(13, '\0');
  std::iota(salt.begin(), salt.end(), '\0');
  std::string info(10, '\0');
  std::iota(info.begin(), info.end(), '\xf0');
  const RecordKey key = derive_key(secret, salt, info);
  std::string digits;
  for (const char byte : key) digits += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  EXPECT_EQ(digits, "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf");
}

TEST(RecordTest, WhatWasSealedIsOpenedInOrder) {
  RecordSealer sealer = RecordSealer::create(key_of('k')).value();
  RecordOpener opener = RecordOpener::create(key_of('k')).value();
  for (const std::size_t size : std::initializer_list<std::size_t>{1, 2, 40, 4096, kMaxRecordBytes}) {
    const Bytes bytes = numbered(size);
    for (const std::size_t in_head : {std::size_t{0}, size / 3, size}) {
      Bytes record = seal(sealer, std::span(bytes).first(in_head), std::span(bytes).subspan(in_head));
      ASSERT_EQ(RecordOpener::size_of_record(record).value(), record.size());
      EXPECT_EQ(record.size(), kRecordHeadBytes + size + kRecordTagBytes);
      if (size >= 16) {
        EXPECT_EQ(std::search(record.begin(), record.end(), bytes.begin(), bytes.begin() + 16), record.end());
      }
      const auto opened = opener.open(record);
      ASSERT_TRUE(opened.ok()) << opened.status();
      EXPECT_TRUE(std::ranges::equal(*opened, bytes));
    }
  }
}

TEST(RecordTest, EveryChangedByteIsFound) {
  const Bytes bytes = numbered(20);
  RecordSealer sealer = RecordSealer::create(key_of('k')).value();
  const Bytes record = seal(sealer, bytes, {});
  for (std::size_t i = 0; i < record.size(); ++i) {
    RecordOpener opener = RecordOpener::create(key_of('k')).value();
    Bytes changed = record;
    changed[i] ^= std::byte{4};
    EXPECT_EQ(code_of_opening(opener, changed), Code::kUnauthenticated) << "byte " << i;
  }
}

TEST(RecordTest, RepeatedLeftOutAndExchangedOnesAreFound) {
  const Bytes bytes = numbered(20);
  RecordSealer sealer = RecordSealer::create(key_of('k')).value();
  const Bytes first = seal(sealer, bytes, {});
  const Bytes second = seal(sealer, bytes, {});
  EXPECT_NE(first, second);
  RecordOpener repeats = RecordOpener::create(key_of('k')).value();
  EXPECT_EQ(code_of_opening(repeats, first), Code::kOk);
  EXPECT_EQ(code_of_opening(repeats, first), Code::kUnauthenticated);
  RecordOpener skips = RecordOpener::create(key_of('k')).value();
  EXPECT_EQ(code_of_opening(skips, second), Code::kUnauthenticated);
  // Of the other direction.
  RecordOpener another = RecordOpener::create(key_of('o')).value();
  EXPECT_EQ(code_of_opening(another, first), Code::kUnauthenticated);
}

TEST(RecordTest, SizesAreBounded) {
  const auto size_of = [](std::uint32_t size) {
    std::array<std::byte, 4> begin{};
    std::memcpy(begin.data(), &size, sizeof size);
    return RecordOpener::size_of_record(begin).status().code();
  };
  EXPECT_EQ(size_of(1), Code::kOk);
  EXPECT_EQ(size_of(kMaxRecordBytes), Code::kOk);
  EXPECT_EQ(size_of(0), Code::kUnauthenticated);
  EXPECT_EQ(size_of(kMaxRecordBytes + 1), Code::kUnauthenticated);
  EXPECT_EQ(size_of(0xffffffff), Code::kUnauthenticated);
}

// What a link sends passes through here.
class SealedLinkTest : public testing::Test {
 protected:
  SealedLinkTest() {
    RecordKeys keys;
    keys.sending = key_of('s');
    keys.receiving = key_of('r');
    sender_ = SealedLink::create(std::move(from_sender_.first), keys, "rank 1 (n1)").value();
    std::swap(keys.sending, keys.receiving);
    receiver_ = SealedLink::create(std::move(to_receiver_.first), keys, "rank 0 (n0)").value();
  }

  // One record of `bytes`, as it comes out of the sender.
  Bytes send(const Bytes& bytes) {
    EXPECT_EQ(sender_->try_send({}, bytes), static_cast<std::ptrdiff_t>(bytes.size()));
    Bytes record(kRecordHeadBytes + bytes.size() + kRecordTagBytes);
    EXPECT_EQ(::recv(from_sender_.second.get(), record.data(), record.size(), MSG_WAITALL),
              static_cast<ssize_t>(record.size()));
    return record;
  }
  void pass_on(std::span<const std::byte> bytes) {
    ASSERT_EQ(::send(to_receiver_.second.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  // Waits for the next bytes; their number or -1.
  std::ptrdiff_t receive(std::span<std::byte> into) {
    std::ptrdiff_t moved = 0;
    while ((moved = receiver_->try_receive(into)) == 0) {
      pollfd slot{receiver_->fd(), POLLIN, 0};
      if (::poll(&slot, 1, 30'000) != 1) return -2;
    }
    return moved;
  }

  base::FdPair from_sender_ = make_tcp_pair();
  base::FdPair to_receiver_ = make_tcp_pair();
  std::unique_ptr<SealedLink> sender_;
  std::unique_ptr<SealedLink> receiver_;
  Bytes place_ = Bytes(1000);
};

TEST_F(SealedLinkTest, BytesComeInPiecesOfAnySize) {
  const Bytes bytes = numbered(100);
  const Bytes record = send(bytes);
  pass_on(std::span(record).first(50));
  EXPECT_EQ(receiver_->try_receive(place_), 0);  // nothing before all of it is there
  pass_on(std::span(record).subspan(50));
  EXPECT_EQ(receive(std::span(place_).first(30)), 30);
  EXPECT_EQ(receiver_->try_receive(std::span(place_).subspan(30, 10), std::span(place_).subspan(40)), 70);
  EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), place_.begin()));
  EXPECT_EQ(receiver_->try_receive(place_), 0);
  EXPECT_TRUE(receiver_->why().ok());
}

TEST_F(SealedLinkTest, AChangedRecordEndsTheLink) {
  Bytes record = send(numbered(100));
  record[60] ^= std::byte{1};
  pass_on(record);
  EXPECT_EQ(receive(place_), -1);
  EXPECT_EQ(receiver_->why().code(), Code::kUnauthenticated);
  EXPECT_EQ(receiver_->why().message(),
            "the connection to rank 0 (n0): a record was changed, repeated or lost in transit");
  pass_on(send(numbered(100)));
  EXPECT_EQ(receiver_->try_receive(place_), -1);
}

TEST_F(SealedLinkTest, ARepeatedRecordEndsTheLink) {
  const Bytes record = send(numbered(100));
  pass_on(record);
  EXPECT_EQ(receive(place_), 100);
  pass_on(record);
  EXPECT_EQ(receive(place_), -1);
  EXPECT_EQ(receiver_->why().code(), Code::kUnauthenticated);
}

TEST_F(SealedLinkTest, AnImpossibleSizeEndsTheLink) {
  pass_on(Bytes(4, std::byte{0xff}));
  EXPECT_EQ(receive(place_), -1);
  EXPECT_EQ(receiver_->why().message(), "the connection to rank 0 (n0): invalid record size: 4294967295 bytes");
}

TEST_F(SealedLinkTest, ATruncatedRecordIsSaidToBeOne) {
  const Bytes record = send(numbered(100));
  pass_on(std::span(record).first(record.size() - 1));
  to_receiver_.second.reset();
  EXPECT_EQ(receive(place_), -1);
  EXPECT_EQ(receiver_->why().code(), Code::kUnavailable);
  EXPECT_EQ(receiver_->why().message(), "rank 0 (n0) closed its connection in the middle of a record");
}

}  // namespace
}  // namespace muster::collectives::record_test
