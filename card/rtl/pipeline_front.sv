// The first half of X1 and X2: headers, payload and ICV apart (pipeline_take), the payload through
// the function in the slot, and all together again (pipeline_give). Packets follow each other into
// the function without waiting for the results.
module pipeline_front #(
    parameter int FUNCTIONS = 2,
    parameter int LOAD_CYCLES = 64
) (
    input  logic         clk,
    input  logic         rst,
    // frames with a prefix, from frame_guard
    input  logic         s_valid,
    output logic         s_ready,
    input  logic [63:0]  s_data,
    input  logic         s_eof,
    input  logic [3:0]   s_bytes,
    input  logic         s_err,
    // pieces of the finished frame, for stream_join
    output logic         j_valid,
    input  logic         j_ready,
    output logic [63:0]  j_data,
    output logic [3:0]   j_bytes,
    output logic         j_last,
    // the plan for the inspection, from before the frame's first piece to `fin`
    output logic [3:0]   look,      // IP checksum, UDP checksum, filter, signature
    output logic         look_fill, // fill the checksums in (else check them)
    output logic [13:0]  look_off,  // of the IPv4 header in the outgoing frame
    output logic         fin_valid,
    input  logic         fin_ready,
    output logic         fin_frame,   // pieces were given, and j_last
    output logic         fin_to_mac,
    output logic [127:0] fin_status,
    // for the parser of X2 and the filter
    output logic         map_write,
    output logic [31:0]  map_spi,
    output logic [7:0]   map_index,
    output logic         rule_clear,
    output logic         rule_accept,
    output logic         rule_write,
    output logic [3:0]   rule_number,
    output logic [3:0]   rule_word,
    output logic [63:0]  rule_data,
    output logic         page_begin, // the signatures' tables; the data is rule_data
    output logic         page_write,
    output logic [1:0]   page,
    output logic [9:0]   page_word,
    output logic [3:0]   slot_active
);
  logic         slot_load, slot_known, slot_loading, settled, idle;
  logic [3:0]   slot_id;
  logic         cmd_valid, cmd_ready, cmd_dec, cmd_null, cmd_rekey, cmd_esn;
  logic         in_valid, in_ready, in_last, out_valid, out_ready, out_last, icv_valid, icv_ready;
  logic [255:0] cmd_key, icv;
  logic [1:0]   cmd_key_len;
  logic [511:0] cmd_auth_key;
  logic [31:0]  cmd_salt, cmd_seq_hi;
  logic [127:0] cmd_iv, in_block, out_block;
  logic [63:0]  cmd_esp;
  logic [4:0]   in_bytes, out_bytes;
  logic         p_valid, p_ready, p_last, f_valid, f_ready, f_last;
  logic [127:0] p_block, f_block;
  logic [4:0]   p_bytes, f_bytes;

  logic         i_valid, i_ready, k_valid, k_ready, q_valid, q_ready;
  logic [2:0]   i_kind, q_kind;
  logic [3:0]   i_bytes, q_bytes;
  logic [63:0]  i_data, q_data;
  logic [70:0]  k_item;
  logic [8:0]   level;
  assign settled = idle && level == '0 && !k_valid;

  pipeline_take u_take (
      .clk, .rst, .s_valid, .s_ready, .s_data, .s_eof, .s_bytes, .s_err, .i_valid, .i_ready, .i_kind, .i_bytes, .i_data, .settled,
      .slot_load, .slot_id, .slot_known, .slot_loading, .slot_active, .cmd_valid, .cmd_ready, .cmd_dec, .cmd_null, .cmd_rekey,
      .cmd_key, .cmd_key_len, .cmd_auth_key, .cmd_salt, .cmd_iv, .cmd_esp, .cmd_esn, .cmd_seq_hi, .in_valid(p_valid),
      .in_ready(p_ready), .in_block(p_block), .in_bytes(p_bytes), .in_last(p_last), .map_write, .map_spi, .map_index, .page_begin, .page_write, .page, .page_word,
      .rule_clear, .rule_accept,
      .rule_write, .rule_number, .rule_word, .rule_data);
  // Registers at both ends of the function and before the items' queue: the `ready` of neither
  // reaches back into the cutting of the frame, nor that of the joiner into the function.
  skid #(.WIDTH(134)) u_blocks (
      .clk, .rst, .s_valid(p_valid), .s_ready(p_ready), .s_item({p_last, p_bytes, p_block}), .m_valid(in_valid), .m_ready(in_ready),
      .m_item({in_last, in_bytes, in_block}));
  skid #(.WIDTH(71)) u_given (
      .clk, .rst, .s_valid(i_valid), .s_ready(i_ready), .s_item({i_kind, i_bytes, i_data}), .m_valid(k_valid), .m_ready(k_ready),
      .m_item(k_item));
  slot #(.FUNCTIONS(FUNCTIONS), .LOAD_CYCLES(LOAD_CYCLES)) u_slot (
      .clk, .rst, .load(slot_load), .load_id(slot_id), .load_known(slot_known), .loading(slot_loading), .active(slot_active),
      .cmd_valid, .cmd_ready, .cmd_dec, .cmd_null, .cmd_rekey, .cmd_key, .cmd_key_len, .cmd_auth_key, .cmd_salt, .cmd_iv, .cmd_esp,
      .cmd_esn, .cmd_seq_hi, .in_valid, .in_ready, .in_block, .in_bytes, .in_last, .out_valid(f_valid), .out_ready(f_ready),
      .out_block(f_block), .out_bytes(f_bytes), .out_last(f_last), .icv_valid, .icv_ready, .icv);
  skid #(.WIDTH(134)) u_made (
      .clk, .rst, .s_valid(f_valid), .s_ready(f_ready), .s_item({f_last, f_bytes, f_block}), .m_valid(out_valid), .m_ready(out_ready),
      .m_item({out_last, out_bytes, out_block}));
  fifo #(.WIDTH(71), .DEPTH_LOG2(8)) u_items (
      .clk, .rst, .s_valid(k_valid), .s_ready(k_ready), .s_item(k_item), .m_valid(q_valid), .m_ready(q_ready),
      .m_item({q_kind, q_bytes, q_data}), .level);
  pipeline_give u_give (
      .clk, .rst, .asked(i_valid && i_ready && i_kind == 3'd2), .i_valid(q_valid), .i_ready(q_ready), .i_kind(q_kind),
      .i_bytes(q_bytes), .i_data(q_data), .idle, .out_valid, .out_ready, .out_block, .out_bytes, .out_last, .icv_valid, .icv_ready,
      .icv, .j_valid, .j_ready, .j_data, .j_bytes, .j_last, .look, .look_fill, .look_off, .fin_valid, .fin_ready, .fin_frame,
      .fin_to_mac, .fin_status);
endmodule
