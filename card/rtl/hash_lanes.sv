// HMAC of ESP packets (HASH 1 SHA-1, 2 SHA-512) in UNITS units, which take packets by turns: while
// one hashes, the next packet's blocks come into the other's queue. ICVs leave in the order of the
// starts. All units have the same key.
module hash_lanes #(
    parameter int HASH = 1,
    parameter int UNITS = 2,
    parameter int DEPTH_LOG2 = 8 // of a unit's queue, in blocks
) (
    input  logic         clk,
    input  logic         rst,
    input  logic         key_valid, // while no packet is within
    output logic         key_ready,
    input  logic [511:0] key,
    input  logic         start_valid, // a packet, before its blocks; four a unit may wait
    output logic         start_ready,
    input  logic [63:0]  start_esp,
    input  logic [127:0] start_iv,
    input  logic [4:0]   start_iv_bytes,
    input  logic         start_esn,
    input  logic [31:0]  start_seq_hi,
    input  logic         in_valid,
    output logic         in_ready,
    input  logic [127:0] in_block,
    input  logic [4:0]   in_bytes,
    input  logic         in_last,
    output logic         icv_valid,
    input  logic         icv_ready,
    output logic [255:0] icv
);
  localparam int UNIT = UNITS > 1 ? $clog2(UNITS) : 1;
  logic [UNIT-1:0]  starting, filling, leaving;
  logic [UNITS-1:0] u_key_ready, u_start_ready, u_in_ready, u_icv_valid;
  logic [255:0]     u_icv[UNITS];
  assign key_ready = &u_key_ready;
  assign start_ready = u_start_ready[starting];
  assign in_ready = u_in_ready[filling];
  assign icv_valid = u_icv_valid[leaving];
  assign icv = u_icv[leaving];

  function automatic logic [UNIT-1:0] after(input logic [UNIT-1:0] unit);
    after = int'(unit) == UNITS - 1 ? '0 : unit + 1'b1;
  endfunction

  always_ff @(posedge clk) begin
    if (rst) begin
      starting <= '0;
      filling <= '0;
      leaving <= '0;
    end else begin
      if (start_valid && start_ready) starting <= after(starting);
      if (in_valid && in_ready && in_last) filling <= after(filling);
      if (icv_valid && icv_ready) leaving <= after(leaving);
    end
  end

  for (genvar u = 0; u < UNITS; u++) begin : g_unit
    logic         head_valid, head_ready, esn, b_valid, b_ready, b_last, w_valid, w_ready, w_last;
    logic [63:0]  esp, w_data;
    logic [127:0] iv, b_block;
    logic [4:0]   iv_bytes, b_bytes;
    logic [31:0]  seq_hi;
    logic [3:0]   w_bytes;
    logic [DEPTH_LOG2:0] unused_level;
    core_fifo #(.WIDTH(230), .DEPTH(4)) u_heads (
        .clk, .rst, .in_valid(start_valid && starting == UNIT'(u)), .in_ready(u_start_ready[u]),
        .in_data({start_esp, start_iv, start_iv_bytes, start_esn, start_seq_hi}), .out_valid(head_valid), .out_ready(head_ready),
        .out_data({esp, iv, iv_bytes, esn, seq_hi}));
    fifo #(.WIDTH(134), .DEPTH_LOG2(DEPTH_LOG2)) u_blocks (
        .clk, .rst, .s_valid(in_valid && filling == UNIT'(u)), .s_ready(u_in_ready[u]), .s_item({in_last, in_bytes, in_block}),
        .m_valid(b_valid), .m_ready(b_ready), .m_item({b_last, b_bytes, b_block}), .level(unused_level));
    hash_feed u_feed (
        .clk, .rst, .start_valid(head_valid), .start_ready(head_ready), .esp, .iv, .iv_bytes, .esn, .seq_hi, .in_valid(b_valid),
        .in_ready(b_ready), .in_block(b_block), .in_bytes(b_bytes), .in_last(b_last), .m_valid(w_valid), .m_ready(w_ready),
        .m_data(w_data), .m_bytes(w_bytes), .m_last(w_last));
    logic mac_ready;
    assign mac_ready = icv_ready && leaving == UNIT'(u);
    if (HASH == 1) begin : g_hash
      logic [159:0] mac;
      core_hmac_sha1 u_hash (
          .clk, .rst, .key_valid(key_valid && key_ready), .key_ready(u_key_ready[u]), .key, .in_valid(w_valid), .in_ready(w_ready),
          .in_data(w_data), .in_bytes(w_bytes), .in_last(w_last), .mac_valid(u_icv_valid[u]), .mac_ready, .mac);
      assign u_icv[u] = {96'b0, mac};
    end else begin : g_hash
      logic [511:0] mac;
      core_hmac_sha512 u_hash (
          .clk, .rst, .key_valid(key_valid && key_ready), .key_ready(u_key_ready[u]), .key({512'b0, key}), .in_valid(w_valid),
          .in_ready(w_ready), .in_data(w_data), .in_bytes(w_bytes), .in_last(w_last), .mac_valid(u_icv_valid[u]), .mac_ready, .mac);
      assign u_icv[u] = mac[255:0];
      logic unused;
      assign unused = &{1'b0, mac[511:256]};
    end
  end
endmodule
