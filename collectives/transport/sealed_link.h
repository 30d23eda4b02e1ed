// A link over a connected socket that sends its bytes in sealed records (record.h).
//
// Sealed bytes that the socket has not accepted yet do not count as sent. So the sender calls again with the same
// bytes, as Link requires, until all of them are in the socket.
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
  // `socket` is any stream socket, with its options set. `peer` is the peer's name in messages: "rank 3 (n2)".
  static base::Result<std::unique_ptr<SealedLink>> create(base::UniqueFd socket, const RecordKeys& keys,
                                                          std::string peer);

  std::ptrdiff_t try_send(std::span<const std::byte> head, std::span<const std::byte> body) override;
  using Link::try_receive;
  std::ptrdiff_t try_receive(std::span<std::byte> head, std::span<std::byte> body) override;
  base::Status why() const override;
  int fd() const override { return socket_.get(); }

 private:
  SealedLink(base::UniqueFd socket, RecordSealer sealer, RecordOpener opener, std::string peer);
  // Sends the rest of the sealed record. Returns false if bytes are left, because the socket is full or broken.
  bool flush();
  // Opens the next record. Returns false if it has not arrived completely, or if the link is broken.
  bool open_next();
  bool read_more();
  bool fail(const base::Status& why);

  const base::UniqueFd socket_;
  RecordSealer sealer_;
  RecordOpener opener_;
  const std::string peer_;
  base::Status broken_;

  std::vector<std::byte> sealed_;  // the sealed record that is being sent
  std::size_t sealed_size_ = 0;
  std::size_t flushed_ = 0;
  std::size_t sealed_bytes_ = 0;  // number of the caller's bytes in the record; 0 means that no record is buffered

  std::vector<std::byte> arrived_;  // bytes as they arrived, and opened records
  std::size_t begin_ = 0;           // start of the bytes that are not opened yet
  std::size_t end_ = 0;
  std::span<std::byte> opened_;  // in arrived_, before begin_
};

}  // namespace muster::collectives::transport
