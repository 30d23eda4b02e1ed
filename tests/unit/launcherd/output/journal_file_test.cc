#include "launcherd/output/journal_file.h"

#include <gtest/gtest.h>

namespace muster::launcherd::journal_file_test {
namespace {

JournalHeader data_header() {
  JournalHeader header;
  header.kind = JournalKind::kData;
  header.flags = proto::kPartial;
  header.stream = proto::OutputStream::kStderr;
  header.rank = 7;
  header.agent = 3;
  header.sequence = 1ULL << 40;
  header.time_us = 1'767'225'600'000'001;
  return header;
}

TEST(JournalFile, ARecordComesBackAsItWent) {
  const std::string bytes = encode_journal_record(data_header(), "hello") + "more";
  const auto parse = parse_journal_record(bytes);
  ASSERT_TRUE(parse.ok()) << parse.status();
  ASSERT_TRUE(parse->is_whole);
  EXPECT_EQ(parse->size, journal_record_size(5));
  EXPECT_EQ(parse->record.payload, "hello");
  const JournalHeader& header = parse->record.header;
  EXPECT_EQ(header.kind, JournalKind::kData);
  EXPECT_EQ(header.flags, proto::kPartial);
  EXPECT_EQ(header.stream, proto::OutputStream::kStderr);
  EXPECT_EQ(header.rank, 7U);
  EXPECT_EQ(header.agent, 3U);
  EXPECT_EQ(header.length, 5U);
  EXPECT_EQ(header.sequence, 1ULL << 40);
  EXPECT_EQ(header.time_us, 1'767'225'600'000'001);
  EXPECT_EQ(parse_journal_trailer(std::string_view(bytes).substr(parse->size - 4, 4)).value(), parse->size);
}

TEST(JournalFile, TheLayoutIsFixed) {
  JournalHeader header = data_header();
  header.sequence = 0x0102;
  const std::string bytes = encode_journal_record(header, "x");
  EXPECT_EQ(bytes.substr(0, 8), std::string("MTJ1\x01\0\0\0", 8));
  EXPECT_EQ(bytes.substr(8, 12), std::string("\x02\x01\x02\0\x07\0\0\0\x03\0\0\0", 12));
  EXPECT_EQ(bytes.substr(24, 8), std::string("\x02\x01\0\0\0\0\0\0", 8));
  EXPECT_EQ(bytes.substr(40), std::string("x\x2d\0\0\0", 5));
}

TEST(JournalFile, APartAsksForMore) {
  const std::string bytes = encode_journal_record(data_header(), "hello");
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    const auto parse = parse_journal_record(std::string_view(bytes).substr(0, size));
    ASSERT_TRUE(parse.ok()) << size;
    EXPECT_FALSE(parse->is_whole) << size;
    EXPECT_EQ(parse->size, size < kJournalHeaderSize ? kJournalHeaderSize : bytes.size()) << size;
  }
}

TEST(JournalFile, AnyChangedByteOfAHeaderIsSeen) {
  const std::string bytes = encode_journal_record(data_header(), "hello");
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    if (at >= kJournalHeaderSize && at < kJournalHeaderSize + 5) continue;  // the checksum does not cover the payload
    std::string changed = bytes;
    changed[at] = static_cast<char>(changed[at] ^ 0x10);
    const auto parse = parse_journal_record(changed);
    EXPECT_EQ(parse.status().code(), base::Code::kDataLoss) << at;
  }
}

TEST(JournalFile, WhatNobodyWritesIsRefused) {
  JournalHeader header = data_header();
  header.length = 0;  // Data has at least one byte
  auto bytes = encode_journal_header(header);
  EXPECT_FALSE(parse_journal_record({bytes.data(), bytes.size()}).ok());
  header.length = static_cast<std::uint32_t>(proto::kMaxOutputPayload) + 1;
  bytes = encode_journal_header(header);
  EXPECT_FALSE(parse_journal_record({bytes.data(), bytes.size()}).ok());
  header = data_header();
  header.rank = 0x80000000U;
  EXPECT_FALSE(parse_journal_record(encode_journal_record(header, "x")).ok());
  header = data_header();
  header.flags = 4;
  EXPECT_FALSE(parse_journal_record(encode_journal_record(header, "x")).ok());
  header = data_header();
  header.kind = JournalKind::kEndRank;  // this kind has no flags
  EXPECT_FALSE(parse_journal_record(encode_journal_record(header, "")).ok());
  header.flags = 0;
  EXPECT_TRUE(parse_journal_record(encode_journal_record(header, "")).ok());
  EXPECT_FALSE(parse_journal_record(encode_journal_record(header, "x")).ok());
  header.kind = static_cast<JournalKind>(9);
  EXPECT_FALSE(parse_journal_record(encode_journal_record(header, "")).ok());
  EXPECT_FALSE(parse_journal_trailer(std::string_view("\0\0\0\0", 4)).ok());
  EXPECT_FALSE(parse_journal_trailer("\xff\xff\xff\x7f").ok());
}

TEST(JournalFile, WhatIsGoneHasAHost) {
  JournalHeader header;
  header.kind = JournalKind::kGone;
  const auto gone = [&header](const std::string& host) {
    return encode_journal_record(header, encode_gone(1ULL << 33, host));
  };
  const std::string record = gone("n1");
  const auto parse = parse_journal_record(record);
  ASSERT_TRUE(parse.ok() && parse->is_whole);
  EXPECT_EQ(decode_lost_bytes(parse->record.payload), 1ULL << 33);
  EXPECT_EQ(decode_gone_host(parse->record.payload), "n1");
  const std::string longest = gone(std::string(300, 'h'));
  const auto cut = parse_journal_record(longest);
  ASSERT_TRUE(cut.ok() && cut->is_whole);
  EXPECT_EQ(decode_gone_host(cut->record.payload), std::string(kMaxJournalHost, 'h'));
  EXPECT_FALSE(parse_journal_record(encode_journal_record(header, "1234567")).ok());
  EXPECT_FALSE(parse_journal_record(encode_journal_record(header, std::string(8 + kMaxJournalHost + 1, 'x'))).ok());
}

TEST(JournalFile, LostBytesAreANumber) {
  const auto payload = encode_lost_bytes(1ULL << 33);
  JournalHeader header;
  header.kind = JournalKind::kLost;
  const std::string bytes = encode_journal_record(header, {payload.data(), payload.size()});
  const auto parse = parse_journal_record(bytes);
  ASSERT_TRUE(parse.ok() && parse->is_whole);
  EXPECT_EQ(decode_lost_bytes(parse->record.payload), 1ULL << 33);
}

}  // namespace
}  // namespace muster::launcherd::journal_file_test
