// What an SA's algorithms make of an ESP packet: the function they need, and where IV, payload and
// ICV are.
module esp_shape (
    input  logic [7:0]  alg,
    input  logic [7:0]  icv_bytes,
    input  logic [3:0]  slot_active,
    input  logic        decrypt,
    input  logic        from_mac,    // the frame's length is not known yet
    input  logic [15:0] length,
    input  logic [15:0] esp_off,
    input  logic [15:0] esp_end,
    output logic [3:0]  need,        // 0: none does this
    output logic        no_cipher,
    output logic [4:0]  iv_bytes,
    output logic [15:0] payload_off,
    output logic [15:0] payload,     // bytes
    output logic        sound        // a payload of whole blocks inside the frame, an ICV of 8 to 32 bytes
);
  logic [4:0]  block_bytes;
  logic [15:0] fixed;
  assign no_cipher = alg[3:0] == '0;
  esp_table u_table (.alg, .slot_active, .need, .iv_bytes, .block_bytes);
  assign payload_off = esp_off + 16'd8 + {11'b0, iv_bytes};
  assign fixed = payload_off + (decrypt ? {8'b0, icv_bytes} : 16'd0);
  assign payload = esp_end - fixed;
  assign sound = esp_off[15:14] == '0 && esp_end[15:14] == '0 && esp_end > fixed && (from_mac || esp_end <= length)
      && (payload[3:0] & 4'(block_bytes - 5'd1)) == '0 && icv_bytes >= 8'd8 && icv_bytes <= 8'd32;
endmodule
