// A link over a connected socket whose bytes travel in sealed records (record.h).
//
// What has been sealed and not been taken by the socket yet does not count as sent: who sends calls again with the same
// bytes, as Link wants it, so that nothing stays behind when nobody has more to send.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "collectives/transport/link.h"
#include "collectives/transport/record.h"

namespace muster::collectives::inline transport {

class SealedLink final : public Link {
 public:
  // A stream socket of any kind, with its options set. `peer` as messages name it: "rank 3 (n2)".
  static base::Result<std::unique_ptr<SealedLink>> create(base::UniqueFd socket, const RecordKeys& keys,
                                                          std::string peer);

  std::ptrdiff_t try_send(std::span<const std::byte> head, std::span<const std::byte> body) override;
  using Link::try_receive;
  std::ptrdiff_t try_receive(std::span<std::byte> head, std::span<std::byte> body) override;
  base::Status why() const override;
  int fd() const override { return socket_.get(); }

 private:
  SealedLink(base::UniqueFd socket, RecordSealer sealer, RecordOpener opener, std::string peer);
  // What is left of the sealed record goes. False: not all of it, now or ever.
  bool flush();
  // The next record is opened. False: it is not all there, or never will be.
  bool open_next();
  bool read_more();
  bool fail(const base::Status& why);

  const base::UniqueFd socket_;
  RecordSealer sealer_;
  RecordOpener opener_;
  const std::string peer_;
  base::Status broken_;

  std::vector<std::byte> sealed_;  // one record
  std::size_t sealed_size_ = 0;
  std::size_t flushed_ = 0;
  std::size_t sealed_bytes_ = 0;  // of the caller's that it holds; 0: there is none

  std::vector<std::byte> arrived_;  // as they came; records that were opened lie there, too
  std::size_t begin_ = 0;           // of what was not opened yet
  std::size_t end_ = 0;
  std::span<std::byte> opened_;  // in arrived_, before begin_
};

}  // namespace muster::collectives::transport
