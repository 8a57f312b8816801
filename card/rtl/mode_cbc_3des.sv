// 3DES in CBC mode over core_3des: a 16-byte block is two of 8 bytes, one after the other in both directions.
module mode_cbc_3des (
    input  logic         clk,
    input  logic         rst,
    input  logic         key_valid,
    output logic         key_ready,
    input  logic [191:0] key,
    input  logic         start, // between packets
    input  logic         dec,
    input  logic [63:0]  iv,
    input  logic         in_valid,
    output logic         in_ready,
    input  logic [127:0] in_block,
    input  logic [4:0]   in_bytes, // 8 or 16
    input  logic         in_last,
    output logic         out_valid,
    input  logic         out_ready,
    output logic [127:0] out_block,
    output logic [4:0]   out_bytes,
    output logic         out_last
);
  localparam logic [1:0] IDLE = 0, GIVE = 1, TAKE = 2, SHOW = 3;
  logic [1:0]   state;
  logic [127:0] block;
  logic [63:0]  chain, half, made;
  logic         high, dec_q, des_ready, made_valid;
  assign half = high ? block[127:64] : block[63:0];
  assign in_ready = state == IDLE;
  assign out_valid = state == SHOW;
  core_3des u_des (
      .clk, .rst, .key_valid, .key_ready, .key, .in_valid(state == GIVE), .in_ready(des_ready),
      .in_block(dec_q ? half : half ^ chain), .in_dec(dec_q), .out_valid(made_valid), .out_ready(state == TAKE), .out_block(made));

  always_ff @(posedge clk) begin
    if (start) begin
      chain <= iv;
      dec_q <= dec;
    end
    if (rst) state <= IDLE;
    else case (state)
      IDLE: if (in_valid) begin
        block <= in_block;
        out_bytes <= in_bytes;
        out_last <= in_last;
        high <= 1'b0;
        state <= GIVE;
      end
      GIVE: if (des_ready) state <= TAKE;
      TAKE: if (made_valid) begin
        if (high) out_block[127:64] <= dec_q ? made ^ chain : made;
        else out_block <= {64'b0, dec_q ? made ^ chain : made};
        chain <= dec_q ? half : made;
        high <= 1'b1;
        state <= high || out_bytes <= 5'd8 ? SHOW : GIVE;
      end
      default: if (out_ready) state <= IDLE;
    endcase
  end
endmodule
