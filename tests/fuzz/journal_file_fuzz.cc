// An output journal that somebody has written to: the parser never reads outside of its bytes, and what it accepts
// encodes to the same bytes and is found from its end as well.
#include <cstdint>
#include <cstdlib>

#include "launcherd/output/journal_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace muster::launcherd;
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  for (;;) {
    const auto parse = parse_journal_record(rest);
    if (!parse.ok()) return 0;
    if (!parse->is_whole) {
      if (parse->size <= rest.size() || parse->size > kMaxJournalRecord) std::abort();
      return 0;
    }
    const JournalRecord& record = parse->record;
    const std::string_view whole = rest.substr(0, parse->size);
    if (parse->size > rest.size() || record.payload.size() != record.header.length) std::abort();
    if (encode_journal_record(record.header, record.payload) != whole) std::abort();
    const auto trailer = parse_journal_trailer(whole.substr(whole.size() - kJournalTrailerSize));
    if (!trailer.ok() || *trailer != parse->size) std::abort();
    if (record.header.kind == JournalKind::kLost) (void)decode_lost_bytes(record.payload);
    if (record.header.kind == JournalKind::kGone) (void)decode_gone_host(record.payload);
    rest.remove_prefix(parse->size);
  }
}
